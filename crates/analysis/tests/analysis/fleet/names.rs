//! Lists of host names.

use fathom_analysis::fleet::names::{HOSTS_MAX, expand, fold};
use proptest::prelude::*;

fn folded(names: &[&str]) -> String {
    fold(names.iter().copied())
}

#[test]
fn names_fold_to_ranges_of_their_numbers() {
    assert_eq!(folded(&["node17", "node3", "node19", "node18"]), "node[3,17-19]");
    assert_eq!(folded(&["node9", "node10", "node11"]), "node[9-11]");
    assert_eq!(folded(&["n08", "n09", "n10", "n11"]), "n[08-11]");
    assert_eq!(folded(&["n1", "n01", "n02", "n2"]), "n[01-02,1-2]");
    assert_eq!(folded(&["b1", "a2", "a1", "login"]), "a[1-2],b1,login");
    assert_eq!(folded(&["n1.rack2.example", "n2.rack2.example"]), "n[1-2].rack2.example");
    assert_eq!(folded(&["gpu2-ib0", "gpu2-ib1"]), "gpu2-ib[0-1]");
    assert_eq!(folded(&["node7", "node7"]), "node7", "each once");
    assert_eq!(folded(&["n99999999999999999999"]), "n99999999999999999999", "no number of 64 bits");
    assert_eq!(folded(&[]), "");
}

#[test]
fn lists_expand_in_their_order() {
    let all = expand("b,a,node[08-10,3],login").unwrap();
    assert_eq!(all, ["b", "a", "node08", "node09", "node10", "node3", "login"]);
    assert_eq!(expand("node[01-40]").unwrap().len(), 40);
    assert_eq!(expand("r[1-2]n[8-9].x").unwrap(), ["r1n8.x", "r1n9.x", "r2n8.x", "r2n9.x"]);
    assert_eq!(expand("a, b").unwrap(), ["a", "b"]);
}

#[test]
fn wrong_lists_are_refused_with_their_part() {
    for (list, part) in [
        ("", "an empty name"),
        ("a,,b", "an empty name"),
        ("a,a", "a occurs twice"),
        ("n[1-2],n2", "n2 occurs twice"),
        ("n[1", "[ without ]"),
        ("n1]", "] without ["),
        ("n][1]", "] without ["),
        ("n[]", "\"\" is not a number"),
        ("n[1-]", "\"\" is not a number"),
        ("n[a-b]", "\"a\" is not a number"),
        ("n[+1]", "\"+1\" is not a number"),
        ("n[9-1]", "invalid range 9-1"),
        ("n[1-02]", "invalid range 1-02"),
        ("n[01-2]", "invalid range 01-2"),
        ("n[1-999999999999]", "more than 100000 hosts"),
        ("n[1-1000]m[1-1000]", "more than 100000 hosts"),
        ("n[1-100000],x", "more than 100000 hosts"),
        ("n[1-99999999999999999999]", "is not a number of at most 18 digits"),
        (&"[1]".repeat(40_000), "a name of 287 bytes; at most 286"),
        (&format!("n[1-100000]{}", "[7]".repeat(9_000)), "at most 286"),
        (&"[".repeat(40_000), "[ without ]"),
        (&format!("{}]", "[".repeat(40_000)), "is not a number"),
        (&"n".repeat(10_000_000), "a name of 10000000 bytes"),
    ] {
        let error = expand(list).unwrap_err();
        assert!(error.len() < 300, "{} bytes", error.len());
        assert!(error.starts_with("hosts: ") && error.contains(part), "{list}: {error}");
    }
    assert_eq!(expand(&format!("n[1-{HOSTS_MAX}]")).unwrap().len(), HOSTS_MAX);
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (0..12_u32).prop_map(|number| format!("n{number}")),
        3 => (0..120_u32).prop_map(|number| format!("n{number:02}")),
        2 => (0..5_u32, 0..1_100_u32).prop_map(|(rack, at)| format!("r{rack}-{at:03}.site1")),
        1 => "[a-z][a-z0-9-]{0,6}(\\.[a-z0-9]{1,3})?",
        1 => "[0-9]{1,20}",
    ]
}

proptest! {
    #![proptest_config(crate::seeded(300))]

    #[test]
    fn folded_names_expand_to_the_same(names in proptest::collection::btree_set(name(), 1..80)) {
        let list = fold(names.iter().map(String::as_str));
        let expanded = expand(&list).map_err(TestCaseError::fail)?;
        prop_assert_eq!(expanded.len(), names.len(), "{}", list);
        prop_assert_eq!(expanded.into_iter().collect::<std::collections::BTreeSet<_>>(), names);
    }

    #[test]
    fn any_text_expands_or_is_refused(list in "[a-c0-9,\\[\\]. -]{0,30}") {
        if let Ok(names) = expand(&list) {
            let again = expand(&fold(names.iter().map(String::as_str)));
            prop_assert_eq!(again.map(|it| it.len()), Ok(names.len()));
        }
    }
}
