//! `fathom file sweep`: how fast a file is read with many blocks, from memory and from the device,
//! by one thread and by many.

mod dd;
mod findings;
mod points;
mod told;

use std::path::PathBuf;

use fathom_fileio::Source;
use fathom_record::Params;

use self::dd::Dd;
use self::points::{Plan, State};
use super::search::Found;
use super::session::{Session, refuse, shown, size};
use super::size::{Sought, find};
use super::temporary::{Folder, Temporary, announce};
use crate::arguments::file::StateName;
use crate::arguments::file::sweep::SweepArguments;
use crate::exit::Status;

/// The temporary file, where nothing else was asked for.
const USUAL_BYTES: u64 = 256 << 20;
/// Blocks, where none were asked for: powers of four up to 64 MiB.
const USUAL_POWERS: u32 = 13;

pub(super) fn sweep(arguments: &SweepArguments) -> anyhow::Result<Status> {
    let sources = opened(&arguments.files)?;
    let folder = match sources.is_empty() {
        true => Some(Folder::choose(arguments.temporary.folder.as_deref())?),
        false => None,
    };
    let sizes = match &arguments.sizes {
        Some(sizes) => sizes.0.clone(),
        None => vec![USUAL_BYTES],
    };
    if let (Some(folder), Some(largest), false) = (&folder, sizes.last(), arguments.sized) {
        folder.check(*largest)?;
    }
    let asked = match arguments.files.as_slice() {
        [] => "file sweep".to_owned(),
        files => {
            let names: Vec<String> = files.iter().map(|path| shown(path)).collect();
            format!("file sweep {}", names.join(" "))
        }
    };
    let mut session = Session::begin(&arguments.common, asked)?;
    session.recall(super::MODEL_INPUTS);
    session.recall(&["file.call"]);
    let plan = plan(arguments, &session);
    let dd = if arguments.with_dd { Dd::find(&session) } else { None };
    if let Some(dd) = &dd {
        session.say_facts(&[("dd", dd.told())]);
    }
    let mut is_found = true;
    match (&folder, arguments.sized) {
        (None, _) => {
            for (source, more) in sources.iter().zip(told_apart(&sources)) {
                if !one(&mut session, source, &plan, dd.as_ref(), &more)? {
                    break;
                }
            }
        }
        (Some(folder), true) => {
            let sought = &arguments.sought;
            let sought = Sought::new(&session, folder, arguments.block, StateName::Warm, sought)?;
            if let Some(status) = sought.announce(&mut session, folder, arguments.temporary.yes) {
                return Ok(status);
            }
            let (found, file) = find(&mut session, folder, &sought)?;
            is_found = matches!(found, Found::Fits(_));
            if is_found {
                one(&mut session, file.source(), &plan, dd.as_ref(), &Params::none())?;
            }
        }
        (Some(folder), false) => {
            let largest = *sizes.last().expect("a list has a member");
            let what = format!("and reads {}", plan.told(sizes.len()));
            let yes = arguments.temporary.yes;
            if let Some(status) = announce(&mut session, folder, largest, &what, yes) {
                return Ok(status);
            }
            of_sizes(&mut session, folder, &sizes, &plan, dd.as_ref())?;
        }
    }
    // All that was asked for was left out, and why was said.
    is_found &= !session.is_empty();
    match session.end()? {
        Status::Done if !is_found => Ok(Status::Incomplete),
        status => Ok(status),
    }
}

/// The files that were named; each must have something to read.
fn opened(files: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let open = |path: &PathBuf| {
        let source = Source::open(path).map_err(refuse)?;
        match source.subject().size {
            Some(0) => Err(refuse(format!("{} is empty: there is nothing to read", shown(path)))),
            Some(_) => Ok(source),
            None => Err(refuse(format!("{} has no end: name a regular file", shown(path)))),
        }
    };
    files.iter().map(open).collect()
}

/// What tells files of one size apart in the records: their names, where that is needed.
fn told_apart(sources: &[Source]) -> Vec<Params> {
    let size = |source: &Source| source.subject().size;
    let name = |source: &Source| shown(&source.subject().path);
    let more = |(at, source): (usize, &Source)| {
        let alike = |one: &&Source| size(one) == size(source);
        if sources.iter().filter(alike).count() == 1 {
            return Params::none();
        }
        // Named twice, it is two cases all the same.
        let before = sources[..at].iter().filter(|one| name(one) == name(source)).count();
        let params = Params::one("file", name(source).as_str());
        if before == 0 { params } else { params.and("again", before as i64) }
    };
    sources.iter().enumerate().map(more).collect()
}

fn plan(arguments: &SweepArguments, session: &Session) -> Plan {
    let mut blocks = match &arguments.blocks {
        Some(blocks) => blocks.0.clone(),
        None => (0..=USUAL_POWERS).map(|power| 1 << (2 * power)).collect(),
    };
    if arguments.sized {
        blocks.push(arguments.block);
    }
    blocks.sort_unstable();
    blocks.dedup();
    let mut threads = arguments.threads.clone();
    if threads.is_empty() {
        let all = session.host().cpu.allowed.len().clamp(1, 1024);
        threads = vec![1, all as u16];
    }
    threads.sort_unstable();
    threads.dedup();
    let usual = [StateName::Warm, StateName::Cold, StateName::Direct];
    let mut states = Vec::new();
    let asked = if arguments.state.is_empty() { &usual[..] } else { &arguments.state };
    for state in asked {
        if !states.contains(state) {
            states.push(*state);
        }
    }
    Plan { blocks, states, threads, each: arguments.each, passes: arguments.passes }
}

/// A temporary file of each size, one after the other.
fn of_sizes(
    session: &mut Session,
    folder: &Folder,
    sizes: &[u64],
    plan: &Plan,
    dd: Option<&Dd>,
) -> anyhow::Result<()> {
    let mut file = Temporary::new(folder)?;
    for bytes in sizes {
        let bar = session.bar(*bytes);
        bar.set_message(format!("writing {}", size(*bytes)));
        let is_made = file.resize(*bytes, session.stop().now(), &bar)?;
        bar.finish_and_clear();
        if !is_made || !one(session, file.source(), plan, dd, &Params::none())? {
            break;
        }
    }
    Ok(())
}

/// All curves of one file; false where a person stopped it.
fn one(
    session: &mut Session,
    source: &Source,
    plan: &Plan,
    dd: Option<&Dd>,
    more: &Params,
) -> anyhow::Result<bool> {
    session.say_facts(&[("file", super::state::place(source))]);
    let mut states: Vec<State> = Vec::new();
    let mut goes_on = true;
    for name in &plan.states {
        let (state, on) = points::take(session, source, plan, *name, dd, more)?;
        told::say(session, &state);
        states.push(state);
        goes_on = on;
        if !goes_on {
            break;
        }
    }
    told::draw(session, &states);
    findings::tell(session, source, &states);
    Ok(goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_size_are_told_apart_and_others_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str, bytes: usize| {
            let path = folder.path().join(name);
            std::fs::write(&path, vec![1; bytes]).expect("a file");
            path
        };
        let files = [path("a", 10), path("b", 20), path("c", 10), path("a", 10)];
        let sources = opened(&files).expect("four files");
        let more = told_apart(&sources);
        assert!(more[0].text("file").is_some_and(|name| name.ends_with("/a")), "{more:?}");
        assert!(more[1].is_empty(), "{more:?}");
        let mut distinct = more.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 4, "{more:?}");
    }
}
