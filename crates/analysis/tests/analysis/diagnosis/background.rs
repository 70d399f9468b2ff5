//! Rules on background activity of the kernel: on, off and unread.

use fathom_record::Severity::{Good, Note, Warning};

use super::fixture::{FixtureMachine, after, finds, is_unknown};

fn damon(actions: &str) -> impl FnOnce(&mut FixtureMachine) {
    let actions = Some(actions.to_owned());
    move |m| m.host.memory.damon = actions
}

#[test]
fn background_activity_is_rated_by_what_it_does() {
    // Damon is a warning if it moves pages.
    finds("damon", Good, "no DAMON scheme", |_| {});
    finds("damon", Note, "lru_prio, stat", damon("lru_prio, stat"));
    finds("damon", Note, "root only", damon("unknown actions"));
    finds("damon", Warning, "lru_prio, pageout", damon("lru_prio, pageout"));
    finds("damon", Warning, "damon_reclaim", damon("damon_reclaim"));
    assert!(after("damon", damon("pageout")).touches.contains(&"memory.*".to_owned()));
    is_unknown("damon", |m| m.host.memory.damon = None);
    // Zswap counts only with swap.
    finds("zswap", Good, "off", |_| {});
    finds("zswap", Good, "no swap", |m| m.host.memory.zswap.enabled = Some(true));
    finds("zswap", Note, "on", |m| {
        (m.host.memory.zswap.enabled, m.host.memory.swap_bytes) = (Some(true), Some(1 << 30));
    });
    is_unknown("zswap", |m| m.host.memory.zswap.enabled = None);
    // Ksm and autogroup are named.
    finds("ksm", Good, "not running", |m| m.host.memory.ksm.run = Some(2));
    finds("ksm", Warning, "running, 7 pages", |m| {
        (m.host.memory.ksm.run, m.host.memory.ksm.pages_sharing) = (Some(1), Some(7));
    });
    is_unknown("ksm", |m| m.host.memory.ksm.run = None);
    finds("autogroup", Good, "off", |_| {});
    finds("autogroup", Note, "on", |m| m.host.autogroup = Some(true));
    is_unknown("autogroup", |m| m.host.autogroup = None);
}
