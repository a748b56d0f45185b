//! Just enough reading of Rust for the rules: what is code, which words, which lines are tests.
//!
//! Not a parser. It relies on source that rustfmt has laid out and the compiler has accepted, so
//! braces balance and a `fn` is a function. Literals and comments are blanked first, so that no
//! rule is misled by a brace or a word in a text.

/// `text` with comments and the insides of literals replaced by spaces, line by line.
pub(crate) fn code(text: &str) -> String {
    let mut scanner = Scanner { rest: text.chars().collect(), at: 0, out: String::new() };
    scanner.run();
    scanner.out
}

/// The words of one line of code with their columns (from 0, in bytes).
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

/// May `c` be part of an identifier?
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// For each line of `code`: does it belong to an item under `#[cfg(test)]` or `#[test]`?
pub(crate) fn test_lines(code: &str) -> Vec<bool> {
    let lines: Vec<&str> = code.lines().collect();
    let mut is_test = vec![false; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim_start();
        if !(line.starts_with("#[cfg(test)]") || line.starts_with("#[test]")) {
            at += 1;
            continue;
        }
        let end = item_end(&lines, at);
        is_test[at..=end].fill(true);
        at = end + 1;
    }
    is_test
}

/// The last line of the item that begins at or below line `start`: where its braces close, or its
/// first `;` outside brackets.
pub(crate) fn item_end(lines: &[&str], start: usize) -> usize {
    let mut depth = 0i32;
    for (at, line) in lines.iter().enumerate().skip(start) {
        for c in line.chars() {
            match c {
                '{' | '(' | '[' => depth += 1,
                ')' | ']' => depth -= 1,
                ';' if depth == 0 => return at,
                '}' => {
                    depth -= 1;
                    if depth == 0 {
                        return at;
                    }
                }
                _ => {}
            }
        }
    }
    lines.len().saturating_sub(1)
}

struct Scanner {
    rest: Vec<char>,
    at: usize,
    out: String,
}

impl Scanner {
    fn run(&mut self) {
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('/')) => self.blank_line_comment(),
                ('/', Some('*')) => self.blank_block_comment(),
                ('"', _) => self.blank_string(),
                ('r', Some('"' | '#')) if !self.is_in_word() => self.blank_raw_string(),
                ('\'', _) => self.blank_char(),
                _ => self.keep(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    /// Is the character before this one part of a longer word? The prefixes of literals are not.
    fn is_in_word(&self) -> bool {
        let before = |n: usize| self.at.checked_sub(n).and_then(|at| self.rest.get(at).copied());
        match before(1) {
            Some('b' | 'c') => before(2).is_some_and(is_word),
            Some(c) => is_word(c),
            None => false,
        }
    }

    fn keep(&mut self) {
        self.out.extend(self.peek(0));
        self.at += 1;
    }

    fn blank(&mut self) {
        let c = self.peek(0);
        self.out.extend(c.map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.at += 1;
    }

    fn blank_line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.blank();
        }
    }

    fn blank_block_comment(&mut self) {
        let mut depth = 0;
        while self.peek(0).is_some() {
            let step = match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => 1,
                (Some('*'), Some('/')) => -1,
                _ => {
                    self.blank();
                    continue;
                }
            };
            depth += step;
            self.blank();
            self.blank();
            if depth == 0 {
                return;
            }
        }
    }

    fn blank_string(&mut self) {
        self.keep();
        while let Some(c) = self.peek(0) {
            match c {
                '"' => return self.keep(),
                '\\' => {
                    self.blank();
                    self.blank();
                }
                _ => self.blank(),
            }
        }
    }

    /// `r"…"`, `r#"…"#`, or a raw identifier such as `r#type`, which is kept.
    fn blank_raw_string(&mut self) {
        let hashes = (1..).take_while(|n| self.peek(*n) == Some('#')).count();
        if self.peek(1 + hashes) != Some('"') {
            return self.keep();
        }
        for _ in 0..hashes + 2 {
            self.keep();
        }
        while self.peek(0).is_some() {
            let closes = self.peek(0) == Some('"')
                && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if closes {
                (0..=hashes).for_each(|_| self.keep());
                return;
            }
            self.blank();
        }
    }

    /// A character, or a lifetime, which is kept.
    fn blank_char(&mut self) {
        let is_char = self.peek(1) == Some('\\') || self.peek(2) == Some('\'');
        self.keep();
        if !is_char {
            return;
        }
        if self.peek(0) == Some('\\') {
            self.blank();
        }
        self.blank();
        while self.peek(0).is_some_and(|c| c != '\'') {
            self.blank();
        }
        self.keep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        for (text, want) in [
            ("a // b { c", "a         "),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("a { \" b") }"#, r#"f("        ") }"#),
            (r##"r#"a " {"# }"##, r##"r#"     "# }"##),
            (r"'{' 'a '\'' b'\\'", r"' ' 'a '  ' b'  '"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("r#type + br\"x\"", "r#type + br\" \""),
            ("'\\u{7d}' }", "'      ' }"),
            ("\"a\nb\" c", "\" \n \" c"),
        ] {
            assert_eq!(code(text), want, "{text}");
        }
    }

    #[test]
    fn words_are_split_at_signs() {
        let found: Vec<&str> = words("let a_b = C::new(&d.0);").collect();
        assert_eq!(found, ["let", "a_b", "C", "new", "d", "0"]);
    }

    #[test]
    fn test_items_are_told_apart() {
        let text = "fn a() {\n}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        assert_eq!(test_lines(text), [false, false, true, true, true, true, false]);
        let text = "#[cfg(test)]\nmod tests;\nfn a() {}\n";
        assert_eq!(test_lines(text), [true, true, false]);
    }
}
