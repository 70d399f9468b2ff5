//! `fathom history`: one metric over time.

use fathom_record::{Effort, Host, Params, Protocol};
use fathom_report::Layout;
use fathom_report::history as telling;

use super::stored;
use crate::arguments::HistoryArguments;
use crate::exit::{Status, Usage};
use crate::pipeline::{Asked, Plan};
use crate::terminal::{self, Output};

pub(super) fn history(arguments: &HistoryArguments) -> anyhow::Result<Status> {
    let word = Asked::parse(&arguments.metric).map_err(|error| Usage(error.to_string()))?;
    let asked = vec![word.name.clone()];
    let plan = Plan::new(asked, Effort::Quick, Protocol::Median, 0, &Host::default())
        .map_err(|error| Usage(error.to_string()))?;
    let store = stored::open(&arguments.store)?;
    let host = arguments.host.clone().unwrap_or_else(stored::this_host);
    let mut output = Output::new();
    let mut all = Vec::new();
    for entry in plan.metrics(false) {
        let id = entry.about().id;
        let (runs, damaged) = store.history(id).map_err(|error| Usage(error.to_string()))?;
        damaged.iter().for_each(|error| terminal::warn(&format!("left out: {error}")));
        let selects = |params: &Params| word.selects(params);
        let history = telling::history(id, &host, &runs, &selects);
        if arguments.json {
            all.push(history);
        } else {
            let layout = Layout { width: terminal::width(), ..Layout::default() };
            output.write(&telling::render(&history, &layout));
        }
    }
    if arguments.json {
        output.write(&format!("{}\n", serde_json::to_string_pretty(&all)?));
    }
    super::printed(&output)
}
