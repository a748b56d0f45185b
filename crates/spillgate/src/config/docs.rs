//! The manual of the configuration file, made from the table of keys.
//!
//! `docs/config.md` holds it; a golden test fails when that file is stale. Only what is common to
//! all keys is written here, everything else comes from the records.

use std::fmt::Write;
use std::path::Path;

use super::key::{Key, Place, Preset};
use super::table;
use crate::golden;

const INTRODUCTION: &str = "# Configuration

<!-- Made from crates/spillgate/src/config/table.rs. \
Refresh: UPDATE_GOLDEN=1 cargo test -p spillgate -->

`spillgate serve --config FILE` reads one TOML file.
`spillgate check --config FILE` tells all its problems, \
each with line, column and what to write instead.
Files to begin with are in [examples/config](../examples/config).

```toml
[listener.main]
address = \"0.0.0.0:8080\"

[pool.app]
command = [\"node\", \"server.js\"]
workers = 4
```

## How values are written

- A duration is a text with a unit: `\"250ms\"`, `\"5s\"`, `\"1.5m\"`, `\"2h\"`.
- A size is a text with a unit: `\"512B\"`, `\"64KiB\"`, `\"1MiB\"`, `\"4GiB\"` \
in powers of 1,024, \
`\"64kB\"`, `\"1MB\"` in powers of 1,000.
- Bytes a second are a size with `/s`: `\"64B/s\"`.
  The `/s` may be left out.
- A share is a text in percent: `\"20%\"`, `\"99.9%\"`.
- A number without its unit is an error, and so is a key that is not listed here.
- An address is `\"HOST:PORT\"` with an IP address or `localhost` as the host \
(`\"[::1]:8080\"` for IPv6), or `\"unix:/PATH\"`.
  Names are not looked up.

An error keeps Spillgate from starting.
A warning (a folder that is missing on this machine, for instance) or a hint does not.
Whatever is left out has the default given here.
";

/// The whole page.
fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for place in Place::ALL {
        let (title, text) = section(place);
        write!(page, "\n## {title}\n\n{text}\n").expect("a string takes any text");
        for key in table::keys_of(place) {
            entry(&mut page, key);
        }
    }
    page
}

fn section(place: Place) -> (&'static str, &'static str) {
    match place {
        Place::Top => ("Top of the file", "These keys stand before the first section."),
        Place::Listener => (
            "`[listener.NAME]`",
            "An address on which clients are accepted.\n\
             At least one is needed.\n\
             NAME has lower-case letters, digits, `-` and `_`; metrics and access records show it.",
        ),
        Place::Pool => (
            "`[pool.NAME]`",
            "The workers of one application, and the queue in front of them.\n\
             NAME is as for listeners.",
        ),
        Place::Route => (
            "`[[route]]`",
            "Which requests go where.\n\
             The order of routes does not matter: a route with a host wins over one without, \
             an exact path over a prefix, a longer prefix over a shorter one.\n\
             When the file has one pool and no route leads to it, every path that has no route of \
             its own goes to that pool.",
        ),
        Place::Reply => (
            "`reply` of a `[[route]]`",
            "A table within the route: `reply = { status = 200, body = \"PONG\\n\" }`.",
        ),
        Place::Spill => (
            "`[spill]`",
            "Where bodies go that are too large for memory.\nThey do so without the section, too.",
        ),
        Place::AccessLog => ("`[access_log]`", "One record for each exchange."),
        Place::Admin => (
            "`[admin]`",
            "Page, status and metrics of the running program.\n\
             Without the section there is no page and no command socket.",
        ),
    }
}

fn entry(page: &mut String, key: &Key) {
    let default = match key.preset {
        Preset::Required(example) => format!("none, the key is required: `{example}`"),
        Preset::Off(meaning) => format!("none: {meaning}"),
        Preset::Is(value) => format!("`{value}`"),
        Preset::Derived(rule) => rule.to_owned(),
    };
    let change = if key.live { "a reload applies it" } else { "takes a restart of Spillgate" };
    let text = key.text.replace(". ", ".\n");
    write!(
        page,
        "\n### `{}`\n\n{}.\n{text}\n\n\
         | type | range | default | change | since |\n| --- | --- | --- | --- | --- |\n\
         | {} | {} | {default} | {change} | {} |\n",
        key.name,
        capitalized(key.line),
        key.kind.type_name(),
        key.kind,
        key.since,
    )
    .expect("a string takes any text");
}

fn capitalized(line: &str) -> String {
    let mut chars = line.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[test]
fn the_manual_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    if let Err(stale) = golden::compare(&path, &page()) {
        panic!("{stale}");
    }
}
