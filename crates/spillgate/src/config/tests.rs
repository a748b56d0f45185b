//! Whole files through the checker: each key has an effect, and no bytes make it panic.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::key::{Key, Place, Preset};
use super::raw::default_of;
use super::*;

const FULL: &str = include_str!("../../../../examples/config/full.toml");
const SUPERVISED: &str = include_str!("../../../../examples/config/supervised.toml");

/// The configuration that `text` stands for, in a form that can be compared.
fn meaning(text: &str) -> Result<String, String> {
    let outcome = check_text("test.toml", text);
    outcome.config.map(|config| format!("{config:?}")).ok_or_else(|| outcome.problems.to_string())
}

/// Titles of places and names of the keys that a file gives.
fn keys_given(text: &str) -> BTreeSet<(&'static str, &'static str)> {
    let raw = syntax::parse(text, &mut Vec::new()).expect("the file is TOML");
    let replies: Vec<Section> = raw
        .routes
        .iter()
        .filter_map(|route| match route.value("reply") {
            Some(Value::Reply(reply)) => Some(*reply),
            _ => None,
        })
        .collect();
    let mut keys = BTreeSet::new();
    let mut add = |place: Place, sections: &[Section]| {
        for (name, _) in sections.iter().flat_map(Section::keys) {
            keys.insert((place.title(), name));
        }
    };
    add(Place::Top, &[raw.top]);
    add(Place::Listener, &raw.listeners);
    add(Place::Pool, &raw.pools);
    add(Place::Route, &raw.routes);
    add(Place::Reply, &replies);
    add(Place::Spill, raw.spill.as_slice());
    add(Place::AccessLog, raw.access_log.as_slice());
    add(Place::Admin, raw.admin.as_slice());
    keys
}

#[test]
fn the_full_example_has_every_key() {
    let given = keys_given(FULL);
    let missing: Vec<String> = table::keys()
        .filter(|key| !given.contains(&(key.place.title(), key.name)))
        .map(|key| format!("{} {}", key.place.title(), key.name))
        .collect();
    assert!(missing.is_empty(), "examples/config/full.toml lacks {missing:?}");
}

/// Each line of the full example changes what the file means: no key is read and then forgotten.
#[test]
fn every_line_of_the_full_example_has_an_effect() {
    let whole = meaning(FULL).expect("the example is valid");
    let lines: Vec<&str> = FULL.lines().collect();
    for (n, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" = ")) {
        let rest: Vec<&str> =
            lines.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, line)| *line).collect();
        assert_ne!(meaning(&rest.join("\n")).as_ref(), Ok(&whole), "no effect: {line}");
    }
}

#[test]
fn every_default_of_the_table_is_within_its_range() {
    for key in table::keys() {
        if matches!(key.preset, Preset::Is(_)) {
            assert!(default_of(key).is_some(), "{}", key.name);
        }
    }
}

#[test]
fn records_are_written_alike() {
    for Key { name, line, text, since, .. } in table::keys() {
        assert!(
            line.starts_with(|c: char| !c.is_uppercase() || line.starts_with("Unix")),
            "{name}"
        );
        assert!(!line.ends_with('.') && text.ends_with('.'), "{name}");
        assert_eq!(since.split('.').count(), 3, "{name}");
    }
    let names: BTreeSet<_> = table::keys().map(|key| (key.place.title(), key.name)).collect();
    assert_eq!(names.len(), table::keys().count(), "a key has two records");
}

#[test]
fn defaults_are_those_of_the_settings() {
    let text = "[listener.main]\naddress = '127.0.0.1:0'\n[pool.app]\nendpoints = ['127.0.0.1:9']";
    let config = check_text("test.toml", text).config.expect("the file is valid");
    let pool = &config.proxy.pools[0];
    assert_eq!((pool.gate.slots.count(), pool.gate.connections_max.count()), (1, 1));
    assert_eq!((pool.gate.queue_len_max, pool.gate.answer_within), (100, None));
    assert_eq!(config.proxy.routes.len(), 1, "the only pool gets every path");
    assert_eq!(config.proxy.access_log, Some(spillgate_proxy::settings::AccessLog::Stdout));
    assert_eq!(config.admin, None);
}

#[test]
fn a_reply_of_its_own_leaves_the_rest_to_the_only_pool() {
    let text = "[listener.main]\naddress = '127.0.0.1:0'\n[pool.app]\nendpoints = ['127.0.0.1:9']\n\
                [[route]]\npath_exact = '/ping'\nreply = { status = 200 }";
    let config = check_text("test.toml", text).config.expect("the file is valid");
    assert_eq!(config.proxy.routes.len(), 2);
}

#[test]
fn a_command_alone_is_a_configuration() {
    let args = RunArgs {
        workers: None,
        listen: None,
        admin: None,
        control: None,
        worker: vec!["sh".into(), "server.sh".into()],
    };
    let config = for_command(args.clone(), 3).expect("every system has a shell");
    let settings = &config.proxy;
    assert_eq!(settings.listeners[0].address.to_string(), "127.0.0.1:8080");
    let spillgate_proxy::settings::Workers::Command(command) = &settings.pools[0].workers else {
        panic!("the workers are started by us");
    };
    assert_eq!((command.workers, command.command.len()), (3, 2));
    assert_eq!(settings.routes.len(), 1);
    let admin = config.admin.expect("there is an admin page");
    assert_eq!(admin.address.expect("it has an address").to_string(), "127.0.0.1:8999");
    assert_eq!(admin.control, control_path_default());

    let quiet =
        RunArgs { admin: Some(AdminAddress::Off), control: Some("/run/other.sock".into()), ..args };
    let config = for_command(quiet.clone(), 3).expect("it still has one");
    let admin = config.admin.expect("commands are taken all the same");
    assert_eq!((admin.address, admin.control), (None, "/run/other.sock".into()));

    let nobody = RunArgs { worker: vec!["./nowhere.js".into()], ..quiet };
    let error = for_command(nobody, 3).expect_err("it is told at once").to_string();
    assert_eq!(error, "cannot start workers: there is no ./nowhere.js");
}

#[test]
fn files_that_cannot_be_read_are_problems() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("gate.toml");
    let said = |path: &Path| load(path).problems.to_string();
    assert!(said(&path).contains("cannot be read"), "{}", said(&path));
    assert!(said(folder.path()).contains("cannot be read"));
    std::fs::write(&path, b"shards = 1\n\xff\n").expect("the folder is ours");
    assert!(said(&path).contains("gate.toml:2:1"), "{}", said(&path));
    let long = vec![b'#'; usize::try_from(FILE_SIZE_MAX).expect("fits") + 1];
    std::fs::write(&path, long).expect("the folder is ours");
    assert!(said(&path).contains("larger than"), "{}", said(&path));
}

/// The corpus of the fuzz target, which checks the same and more.
#[test]
fn no_file_of_the_corpus_makes_the_checker_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/configuration");
    let files = std::fs::read_dir(folder).expect("the target has a corpus");
    let mut count = 0;
    for file in files {
        let path = file.expect("the folder can be read").path();
        let outcome = load(&path);
        let said = outcome.problems.to_string();
        let has_error = said.lines().any(|line| line.starts_with("error: "));
        assert_eq!(outcome.config.is_none(), has_error, "{}: {said}", path.display());
        count += 1;
    }
    assert!(count >= 10, "only {count} files");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(192)
    })]

    /// Any text is drawn or built, whatever it holds.
    #[test]
    fn no_text_makes_the_checker_panic(text in "\\PC{0,200}|[\\[\\]{}=\"'\\.a-z0-9\n #]{0,200}") {
        let _ = check_text("test.toml", &text).problems.to_string();
    }

    /// A valid file with a piece replaced is still only a file with problems.
    #[test]
    fn no_slip_makes_the_checker_panic(
        full in any::<bool>(),
        at in any::<prop::sample::Index>(),
        cut in 0_usize..40,
        piece in prop_oneof![
            "\\PC{0,8}",
            Just("\n[pool]\n".to_owned()),
            Just("[[route]]\n".to_owned()),
            Just("= 99999999999999999999".to_owned()),
            Just("\"-1s\"".to_owned()),
            Just("[[[".to_owned()),
            Just("'''".to_owned()),
            Just("\u{0}\r\t".to_owned()),
        ],
    ) {
        let text = if full { FULL } else { SUPERVISED };
        let start = text.floor_char_boundary(at.index(text.len()));
        let end = text.ceil_char_boundary((start + cut).min(text.len()));
        let slipped = format!("{}{piece}{}", &text[..start], &text[end..]);
        let _ = check_text("test.toml", &slipped).problems.to_string();
    }
}
