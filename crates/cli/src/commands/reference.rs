//! `fathom compare --reference`: a run beside figures that somebody published.

use fathom_report::Layout;
use fathom_report::reference as published;

use super::stored;
use crate::arguments::CompareArguments;
use crate::exit::{Status, Usage};
use crate::terminal::{self, Output};

pub(super) fn beside(name: &str, arguments: &CompareArguments) -> anyhow::Result<Status> {
    let known = || published::known(&published::all());
    let mut output = Output::new();
    if name.is_empty() {
        output.write(&format!("There are {}.\n", known()));
        return super::printed(&output);
    }
    let reference = published::find(name).ok_or_else(|| {
        Usage(format!("compare --reference {name}: no such figures; there are {}", known()))
    })?;
    let run = match arguments.runs.as_slice() {
        [] => "latest",
        [run] => run,
        runs => {
            let text = format!(
                "compare --reference {name}: one run stands beside published figures, {} were \
                 named",
                runs.len()
            );
            return Err(Usage(text).into());
        }
    };
    let document = stored::document(run, false, &arguments.store)?;
    let beside = published::beside(&reference, &document);
    if arguments.json {
        output.write(&format!("{}\n", serde_json::to_string_pretty(&beside)?));
    } else {
        let layout = Layout { width: terminal::width(), ..Layout::default() };
        output.write(&published::render(&beside, &layout));
    }
    super::printed(&output)
}
