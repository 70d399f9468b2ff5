//! `fathom show`: a kept run again, or the list of them.

use fathom_report::{Layout, RunListing};
use fathom_store::RunRow;

use super::stored;
use crate::arguments::ShowArguments;
use crate::exit::{Status, Usage};
use crate::terminal::{self, Output};

pub(super) fn show(arguments: &ShowArguments) -> anyhow::Result<Status> {
    let mut output = Output::new();
    if arguments.runs {
        let rows =
            stored::open(&arguments.store)?.runs().map_err(|error| Usage(error.to_string()))?;
        let listings: Vec<RunListing> = rows.into_iter().map(listing).collect();
        let layout = Layout { width: terminal::width(), ..Layout::default() };
        output.write(&match arguments.json {
            true => fathom_report::json(&listings),
            false => fathom_report::runs(&listings, &layout),
        });
        return super::printed(&output);
    }
    let document = stored::document(&arguments.run, arguments.samples, &arguments.store)?;
    if arguments.json {
        output.write(&fathom_report::document_json(&document));
    } else {
        let protocol = document.run.protocol;
        let (cycles, all) = (arguments.cycles, arguments.all);
        let layout = Layout { width: terminal::width(), cycles, protocol, all };
        output.write(&fathom_report::show(&document, &layout));
    }
    super::printed(&output)
}

fn listing(row: RunRow) -> RunListing {
    let RunRow { id, started, state, effort, host_name: host, kernel, counts, .. } = row;
    RunListing { id, started, state, effort, host, kernel, counts }
}
