//! The list of stored runs.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::host::name_with_id;
use fathom_record::{Counts, Effort, RunState};
use serde::{Deserialize, Serialize};

use crate::grid::Grid;
use crate::layout::Layout;
use crate::paint::{CARE, FAINT, PLAIN, STRONG, paint_lines};
use crate::wrap::{NARROWEST, cut, width_of, wrapped};

/// A stored run in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunListing {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// RFC 3339 in UTC.
    pub started: String,
    pub state: RunState,
    pub effort: Effort,
    pub host: String,
    pub host_id: Option<String>,
    pub kernel: String,
    /// The metrics or cases, or the subject of a command by hand; empty for all metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// The command by hand, such as `file read`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub procedure: Option<String>,
    pub counts: Counts,
}

/// Width of an id after a name, as in ` (0a1b2c3d)`.
const ID_WIDTH: usize = 11;
/// The column of the host.
const HOST: usize = 5;
/// The column of the kernel.
const KERNEL: usize = 6;

fn columns(width: usize, with_ids: bool) -> Grid<7> {
    let line = width.clamp(NARROWEST, 140);
    // At 80 columns the ids take the room of the effort.
    let effort = (line >= if with_ids { 100 } else { 80 }).then_some(8);
    let kernel = (line >= 110).then_some(24);
    let widths = [Some(16), Some(16), Some(11), effort, Some(7), None, kernel];
    let gap = if line < 80 { 1 } else { 2 };
    let mut grid = Grid::new(line, gap, HOST, &[0, 1, 2, 3, HOST, KERNEL], widths);
    // On a narrow line names with their ids are below.
    let is_below = with_ids && line < 80;
    grid.widths[HOST] = (!is_below).then(|| grid.width(HOST).min(32));
    grid
}

/// The runs in the order given, one per line.
pub fn runs(rows: &[RunListing], layout: &Layout) -> String {
    if rows.is_empty() {
        return "No stored runs; `fathom run` makes one.\n".to_owned();
    }
    let ids = ids_by_name(rows);
    let collides = |row: &RunListing| ids[row.host.as_str()].len() > 1;
    let columns = columns(layout.width, rows.iter().any(collides));
    let names = ["run", "started (UTC)", "state", "effort", "valid", "host", "kernel"];
    let mut text = columns.line(names, [STRONG; 7]);
    for row in rows {
        let host = match collides(row) {
            true if columns.widths[HOST].is_some() => {
                let name = cut(&row.host, columns.width(HOST).saturating_sub(ID_WIDTH).max(1));
                name_with_id(&name, row.host_id.as_deref())
            }
            true => name_with_id(&row.host, row.host_id.as_deref()),
            false => row.host.clone(),
        };
        let style = match row.state {
            RunState::Complete | RunState::Running => PLAIN,
            RunState::Interrupted | RunState::Unknown => CARE,
        };
        let counts = format!("{}/{}", row.counts.valid, row.counts.total());
        let started = started(&row.started);
        let effort = row.effort.word();
        let texts = [&row.id, &started, row.state.word(), effort, &counts, &host, &row.kernel];
        text += &columns.line(texts, [PLAIN, PLAIN, style, PLAIN, PLAIN, PLAIN, PLAIN]);
        // What was asked of a command by hand begins with the command.
        let procedure = row.procedure.iter().filter(|_| row.asked.is_empty());
        let command = procedure.chain(&row.asked).map(String::as_str);
        let command = command.collect::<Vec<&str>>().join(" ");
        let label = row.label.as_ref().map(|label| format!("label {label}"));
        // A name that its column cuts is whole here.
        let is_cut = |text: &str, column| (1..width_of(text)).contains(&columns.width(column));
        let whole = match columns.widths[HOST] {
            None => Some(format!("host {host}")),
            _ => (host.contains('…') || is_cut(&host, HOST)).then(|| format!("host {}", row.host)),
        };
        let kernel = is_cut(&row.kernel, KERNEL).then(|| format!("kernel {}", row.kernel));
        let command = Some(command).filter(|it| !it.is_empty());
        let facts: Vec<String> = [command, label, whole, kernel].into_iter().flatten().collect();
        let width = layout.width.max(NARROWEST);
        text += &paint_lines(FAINT, &wrapped(&facts.join("; "), width, "  ", "    "));
    }
    let foot = "A run without metrics in its second line measured all. valid: valid cases of all; \
                `fathom show RUN` prints a run, `fathom compare A B` \
                compares two";
    text + &paint_lines(FAINT, &wrapped(foot, layout.width.max(NARROWEST), "", "  "))
}

/// The ids of the hosts with each name.
fn ids_by_name(rows: &[RunListing]) -> BTreeMap<&str, BTreeSet<Option<&str>>> {
    let mut ids = BTreeMap::<&str, BTreeSet<Option<&str>>>::new();
    for row in rows {
        ids.entry(&row.host).or_default().insert(row.host_id.as_deref());
    }
    ids
}

/// `2026-03-01 12:00`.
pub(crate) fn started(text: &str) -> String {
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => text.to_owned(),
    }
}
