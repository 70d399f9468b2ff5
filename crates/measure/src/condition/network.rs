//! TCP sockets in TIME_WAIT.

use fathom_record::Condition;

use crate::tree::{FileTree, TreeFact, after, keep};

const SOCKSTAT: &str = "/proc/net/sockstat";

pub(super) fn read(tree: &FileTree, condition: &mut Condition) {
    let waiting = time_wait(&tree.text(SOCKSTAT).unwrap_or_default());
    keep!(
        condition.time_wait,
        waiting.map(|count| TreeFact::new(count, format!("{SOCKSTAT}: tw")))
    );
}

/// `tw` in `TCP: inuse 1 orphan 0 tw 7 …`.
fn time_wait(text: &str) -> Option<u64> {
    let mut words = after(text, "TCP:")?.split_whitespace();
    words.find(|word| *word == "tw")?;
    words.next()?.parse().ok()
}
