//! The list of stored runs.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::host::name_with_id;
use fathom_record::{Counts, Effort, RunState};
use serde::{Deserialize, Serialize};

use crate::column::{Column, Lines};
use crate::layout::Layout;
use crate::paint::{CARE, FAINT, PLAIN, paint_lines};
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
/// The columns that are looked at by their places.
const EFFORT: usize = 3;
const HOST: usize = 5;
const KERNEL: usize = 6;

static COLUMNS: [Column<()>; 7] = [
    Column::left("run", &[(0, 16)], ()),
    Column::left("started (UTC)", &[(0, 16)], ()),
    Column::left("state", &[(0, 11)], ()),
    Column::left("effort", &[(80, 8)], ()),
    Column::right("valid", &[(0, 7)], ()),
    Column::left("host", &[], ()),
    Column::left("kernel", &[(110, 24)], ()),
];

fn lines_for(width: usize, with_ids: bool) -> Lines {
    let line = width.clamp(NARROWEST, 140);
    // At 80 columns the ids take the room of the effort.
    let has_effort = |at| at != EFFORT || !with_ids || line >= 100;
    let mut lines = Lines::new(line, if line < 80 { 1 } else { 2 }, &COLUMNS).retain(has_effort);
    // On a narrow line names with their ids are below.
    let is_below = with_ids && line < 80;
    lines.widths[HOST] = (!is_below).then(|| lines.width(HOST).min(32));
    lines
}

/// The runs in the order given, one per line.
pub fn runs(rows: &[RunListing], layout: &Layout) -> String {
    if rows.is_empty() {
        return "No stored runs; `fathom run` makes one.\n".to_owned();
    }
    let ids = ids_by_name(rows);
    let collides = |row: &RunListing| ids[row.host.as_str()].len() > 1;
    let lines = lines_for(layout.width, rows.iter().any(collides));
    let mut text = lines.header();
    for row in rows {
        let host = match collides(row) {
            true if lines.has(HOST) => {
                let name = cut(&row.host, lines.width(HOST).saturating_sub(ID_WIDTH).max(1));
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
        let (state, effort) = (row.state.word(), row.effort.word());
        let texts = [&*row.id, &started, state, effort, &counts, &host, &row.kernel].into_iter();
        text += &lines.line(texts.zip([PLAIN, PLAIN, style, PLAIN, PLAIN, PLAIN, PLAIN]));
        // What was asked of a command by hand begins with the command.
        let procedure = row.procedure.iter().filter(|_| row.asked.is_empty());
        let command = procedure.chain(&row.asked).map(String::as_str);
        let command = command.collect::<Vec<&str>>().join(" ");
        let label = row.label.as_ref().map(|label| format!("label {label}"));
        // A name that its column cuts is whole here.
        let is_cut = |text: &str, column| (1..width_of(text)).contains(&lines.width(column));
        let whole = match lines.has(HOST) {
            false => Some(format!("host {host}")),
            true => {
                (host.contains('…') || is_cut(&host, HOST)).then(|| format!("host {}", row.host))
            }
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
