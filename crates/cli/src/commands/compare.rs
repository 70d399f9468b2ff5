//! `fathom compare`: two runs, metric by metric.

use fathom_record::Document;
use fathom_report::Layout;
use fathom_report::compare::{self as comparing, Noise};
use fathom_store::Store;

use super::stored;
use crate::arguments::CompareArguments;
use crate::exit::Status;
use crate::terminal::{self, Output};

/// So many runs of a host teach how far its runs lie apart: the newest.
const TEACHING: usize = 40;

pub(super) fn compare(arguments: &CompareArguments) -> anyhow::Result<Status> {
    let a = stored::document(&arguments.a, false, &arguments.store)?;
    let b = stored::document(&arguments.b, false, &arguments.store)?;
    if a.run.id == b.run.id {
        terminal::warn("A and B are the same run: nothing can differ");
    }
    let noise = noise(&a, &b, arguments);
    let comparison = comparing::compare(&a, &b, &noise, arguments.seed);
    let mut output = Output::new();
    if arguments.json {
        output.write(&format!("{}\n", serde_json::to_string_pretty(&comparison)?));
    } else {
        let layout = Layout { width: terminal::width(), ..Layout::default() };
        output.write(&comparing::render(&comparison, &layout));
    }
    let Some(limit) = arguments.fail_on else { return super::printed(&output) };
    let worse: Vec<String> =
        comparison.regressions(limit).map(|row| format!("{}{}", row.metric, row.params)).collect();
    let status = super::printed(&output)?;
    match worse.as_slice() {
        [] => Ok(status),
        [first, rest @ ..] => {
            let more =
                if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            let percent = fathom_report::percent(limit);
            terminal::warn(&format!("worse by more than {percent}: {first}{more}"));
            Ok(Status::Incomplete)
        }
    }
}

/// How far runs like these lie apart where nothing was changed, by the kept runs of the host. A
/// store that is not there or cannot be read teaches nothing.
fn noise(a: &Document, b: &Document, arguments: &CompareArguments) -> Noise {
    let history = stored::open(&arguments.store).ok().and_then(|store| history(&store, b).ok());
    history.map_or_else(Noise::default, |history| Noise::learn(&history, a, b))
}

/// The newest runs of a host, oldest first.
fn history(store: &Store, like: &Document) -> Result<Vec<Document>, fathom_store::StoreError> {
    let rows = store.runs()?;
    let of_host = rows
        .into_iter()
        .filter(|row| row.host_name == like.host.name && row.effort == like.run.effort);
    let documents = of_host.take(TEACHING).filter_map(|row| store.document(&row.id, false).ok());
    let mut documents: Vec<Document> = documents.collect();
    documents.reverse();
    Ok(documents)
}
