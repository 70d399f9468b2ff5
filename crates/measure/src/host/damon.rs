//! DAMON schemes: kernel threads that sample accesses, and reclaim or move pages.

use std::collections::BTreeSet;

use fathom_record::Host;

use crate::tree::{FileTree, TreeFact, flag, keep};

const FOLDER: &str = "/sys/kernel/mm/damon/admin/kdamonds";
const MODULES: [&str; 2] = ["damon_reclaim", "damon_lru_sort"];

pub(super) fn read(tree: &FileTree, host: &mut Host) {
    keep!(host.memory.damon, actions(tree));
}

/// The actions of all active schemes. Most of these files are readable by root only; without them,
/// kernel threads show whether DAMON is running.
fn actions(tree: &FileTree) -> Option<TreeFact<String>> {
    let (mut actions, mut places, mut unread) = (BTreeSet::new(), BTreeSet::new(), false);
    for kdamond in numbered(tree, FOLDER) {
        let on = tree.line(&format!("{kdamond}/state")).map(|state| state == "on");
        unread |= on.is_none();
        if on == Some(true) {
            let schemes: Vec<String> = numbered(tree, &format!("{kdamond}/contexts"))
                .into_iter()
                .flat_map(|context| numbered(tree, &format!("{context}/schemes")))
                .filter_map(|scheme| tree.line(&format!("{scheme}/action")))
                .collect();
            let watches = schemes.is_empty().then(|| "stat".to_owned());
            actions.extend(schemes.into_iter().chain(watches));
            places.insert(format!("{FOLDER}/*/contexts/*/schemes/*/action"));
        }
    }
    for module in MODULES {
        let path = format!("/sys/module/{module}/parameters/enabled");
        let on = tree.value(&path, flag).map(|on| on.value);
        unread |= on.is_none() && tree.exists(&path);
        if on == Some(true) {
            actions.insert(module.to_owned());
            places.insert(path);
        }
    }
    if !actions.is_empty() {
        let actions: Vec<String> = actions.into_iter().collect();
        return Some(TreeFact::new(actions.join(", "), Vec::from_iter(places).join(", ")));
    }
    match unread {
        true => by_threads(tree),
        false => tree.exists("/sys/kernel/mm").then(|| TreeFact::new("none".to_owned(), FOLDER)),
    }
}

fn numbered(tree: &FileTree, folder: &str) -> Vec<String> {
    let names = tree.names(folder).into_iter().filter(|name| name.parse::<u32>().is_ok());
    names.map(|name| format!("{folder}/{name}")).collect()
}

/// Whether a thread of DAMON is running. Unknown if kernel threads are not visible, as in a
/// container.
fn by_threads(tree: &FileTree) -> Option<TreeFact<String>> {
    let place = "/proc/*/comm";
    let is_of_kernel = tree.line("/proc/2/comm")? == "kthreadd";
    let runs = || {
        let mut threads = numbered(tree, "/proc").into_iter();
        threads
            .any(|it| tree.line(&format!("{it}/comm")).is_some_and(|it| it.starts_with("kdamond")))
    };
    let found = if runs() { "unknown actions" } else { "none" };
    is_of_kernel.then(|| TreeFact::new(found.to_owned(), place))
}
