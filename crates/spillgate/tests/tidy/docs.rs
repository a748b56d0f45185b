//! Pages: one title each, and links that lead somewhere.

use crate::finding::Finding;
use crate::module::joined;
use crate::tree::{File, Tree};

/// Rules `title` and `link`, for each Markdown page.
pub(crate) fn pages(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|file| titles(file).into_iter().chain(links(tree, file))).collect()
}

fn titles(file: &File) -> Option<Finding> {
    let count = prose(file).filter(|(_, line)| line.starts_with("# ")).count();
    (count != 1).then(|| file.finding(1, "title", format!("{count} titles; a page has one")))
}

fn links(tree: &Tree, file: &File) -> Vec<Finding> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (number, line) in prose(file) {
        for target in link_targets(line).filter(|target| !target.contains("://")) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || tree.has(&joined(folder, path)) {
                continue;
            }
            findings.push(file.finding(number, "link", format!("`{target}` leads nowhere")));
        }
    }
    findings
}

/// The lines outside fenced blocks, with their numbers.
fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    file.text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fenced && !is_fence).then_some((index + 1, line))
    })
}

/// What follows `](` up to `)`.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str) -> Vec<&'static str> {
        let tree = Tree::of(&[("docs/a.md", page), ("docs/decisions/0001.md", "# One\n")]);
        pages(&tree).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn page_has_one_title() {
        assert!(check("# A\n\ntext\n```sh\n# a comment\n```\n").is_empty());
        assert_eq!(check("text\n"), ["title"]);
        assert_eq!(check("# A\n# B\n"), ["title"]);
    }

    #[test]
    fn links_lead_somewhere() {
        assert!(
            check("# A\n[one](decisions/0001.md#part), [all](decisions), [x](#a)\n").is_empty()
        );
        assert!(check("# A\n[out](https://example.org/a)\n").is_empty());
        assert_eq!(check("# A\n[two](decisions/0002.md)\n"), ["link"]);
    }
}
