//! `fathom show`: a stored run, or the list of runs.

use fathom_report::{Layout, RunListing};
use fathom_store::RunRow;

use super::{reference, stored_run};
use crate::arguments::ShowArguments;
use crate::exit::{Status, usage_error};
use crate::terminal;

pub(super) fn show(arguments: &ShowArguments) -> anyhow::Result<Status> {
    let output = &arguments.output;
    if arguments.runs {
        let rows = stored_run::open_store(&output.store)?.runs()?;
        let listings: Vec<RunListing> = rows.into_iter().map(listing).collect();
        return super::print(output.json, &listings, |layout| {
            fathom_report::runs(&listings, layout)
        });
    }
    if arguments.classic {
        return reference::classic(arguments);
    }
    let run = match arguments.named_runs.as_slice() {
        [] => "latest",
        [run] => run,
        runs => usage_error!("show: one run at a time, but {} are named", runs.len()),
    };
    let document = stored_run::document(run, output.samples, &output.store)?;
    if output.json {
        return super::print_text(&fathom_report::document_json(&document));
    }
    if arguments.markdown {
        return super::print_text(&fathom_report::markdown::documents(&[document]));
    }
    let (protocol, cycles, all) = (document.run.protocol, arguments.cycles, arguments.all);
    let layout = Layout { width: terminal::width(), cycles, protocol, all };
    super::print_text(&fathom_report::show(&document, &layout))
}

fn listing(row: RunRow) -> RunListing {
    let RunRow { id, label, started, state, effort, kernel, counts, asked, procedure, .. } = row;
    let (host, host_id) = (row.host_name, row.host_id);
    RunListing {
        id,
        label,
        started,
        state,
        effort,
        host,
        host_id,
        kernel,
        asked,
        procedure,
        counts,
    }
}
