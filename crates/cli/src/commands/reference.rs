//! `--reference`: figures of a published study; and the classic table.

use fathom_analysis::reference::{self as published, Beside, CLASSIC, Reference};
use fathom_record::Document;
use fathom_report::reference::{Options, Units, known, render};

use super::{RUNS_SEARCHED, stored_run};
use crate::arguments::{CompareArguments, ShowArguments, StoreArguments, UnitsName};
use crate::exit::{Status, UsageError};
use crate::remedy::with_remedy;
use crate::terminal;

/// Lists the studies, for `--reference` without a name.
pub(super) fn list() -> anyhow::Result<Status> {
    super::print_text(&format!("Published studies: {}.\n", known(&published::all())))
}

pub(super) fn find(command: &str, name: &str) -> Result<Reference, UsageError> {
    published::find(name).ok_or_else(|| {
        let known = known(&published::all());
        UsageError(format!("{command} --reference {name}: unknown study; known: {known}"))
    })
}

/// `fathom compare --reference`: runs beside a study.
pub(super) fn compare(name: &str, arguments: &CompareArguments) -> anyhow::Result<Status> {
    if name.is_empty() {
        return list();
    }
    let beside = beside(&find("compare", name)?, &arguments.runs, &arguments.store)?;
    let options = Options { published: true, ..Options::default() };
    super::print(arguments.json, &beside, |layout| render(&beside, options, layout))
}

/// `fathom show --classic`.
pub(super) fn classic(arguments: &ShowArguments) -> anyhow::Result<Status> {
    let reference = find("show", arguments.reference.as_deref().unwrap_or(CLASSIC))?;
    let output = &arguments.output;
    let beside = beside(&reference, &arguments.names, &output.store)?;
    let units = match arguments.units {
        UnitsName::Binary => Units::Binary,
        UnitsName::Published => Units::Published,
    };
    let published = arguments.reference.is_some();
    let options = Options { published, units, markdown: arguments.markdown };
    super::print(output.json, &beside, |layout| render(&beside, options, layout))
}

/// The named runs beside a study; without a name the newest run of this host, and older ones for
/// the rows that it does not have.
fn beside(
    reference: &Reference,
    runs: &[String],
    store: &StoreArguments,
) -> anyhow::Result<Beside> {
    if !runs.is_empty() {
        let read = |run: &String| stored_run::document(run, false, store);
        let documents: Vec<Document> = runs.iter().map(read).collect::<anyhow::Result<_>>()?;
        return Ok(published::beside(reference, &documents));
    }
    let mut documents = vec![stored_run::latest_of_this_host(false, store)?];
    let mut beside = published::beside(reference, &documents);
    let (host, newest) = (documents[0].host.identity().to_owned(), documents[0].run.id.clone());
    let store = stored_run::open_store(store)?;
    let older = store.runs()?.into_iter().filter(|row| row.host() == host && row.id < newest);
    for row in older.take(RUNS_SEARCHED) {
        if beside.missing() == 0 {
            break;
        }
        match store.document(&row.id, false) {
            Ok(document) => documents.push(document),
            Err(error) => {
                terminal::warn(&format!("skipped: {}", with_remedy(&error)));
                continue;
            }
        }
        let more = published::beside(reference, &documents);
        if more.missing() < beside.missing() {
            beside = more;
        } else {
            documents.pop();
        }
    }
    Ok(beside)
}
