//! `fathom compare`: two runs, metric by metric.

use fathom_report::Layout;
use fathom_report::compare as comparing;

use super::stored;
use crate::arguments::CompareArguments;
use crate::exit::Status;
use crate::terminal::{self, Output};

pub(super) fn compare(arguments: &CompareArguments) -> anyhow::Result<Status> {
    let a = stored::document(&arguments.a, false, &arguments.store)?;
    let b = stored::document(&arguments.b, false, &arguments.store)?;
    if a.run.id == b.run.id {
        terminal::warn("A and B are the same run: nothing can differ");
    }
    let comparison = comparing::compare(&a, &b, arguments.seed);
    let mut output = Output::new();
    if arguments.json {
        output.write(&format!("{}\n", serde_json::to_string_pretty(&comparison)?));
    } else {
        let layout = Layout { width: terminal::width(), ..Layout::default() };
        output.write(&comparing::render(&comparison, &layout));
    }
    super::printed(&output)
}
