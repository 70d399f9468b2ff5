//! The list of stored runs.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::host::name_with_id;
use fathom_record::{Counts, Effort, RunState};
use serde::{Deserialize, Serialize};

use crate::cells::{Cell, line_of};
use crate::layout::Layout;
use crate::paint::{CARE, FAINT, PLAIN, STRONG, paint_lines};
use crate::wrap::{NARROWEST, cut, wrapped};

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
    pub counts: Counts,
}

/// Width of an id after a name, as in ` (0a1b2c3d)`.
const ID_WIDTH: usize = 11;

struct Columns {
    gap: usize,
    id: usize,
    started: usize,
    state: usize,
    effort: Option<usize>,
    counts: usize,
    host: usize,
    kernel: Option<usize>,
}

impl Columns {
    fn of(width: usize, with_ids: bool) -> Self {
        let line = width.clamp(NARROWEST, 140);
        let gap = if line < 80 { 1 } else { 2 };
        let mut columns = Self {
            gap,
            id: 16,
            started: 16,
            state: 11,
            // At 80 columns the ids take the room.
            effort: (line >= if with_ids { 100 } else { 80 }).then_some(8),
            counts: 7,
            host: 0,
            kernel: (line >= 110).then_some(24),
        };
        let taken = columns.id + columns.started + columns.state + columns.counts + 4 * gap;
        let optional: usize =
            columns.effort.iter().chain(&columns.kernel).map(|width| width + gap).sum();
        columns.host = (line - taken - optional).min(32);
        columns
    }

    fn line(&self, texts: [&str; 7], style: anstyle::Style, state: anstyle::Style) -> String {
        let [id, started, words, effort, counts, host, kernel] = texts;
        let mut cells = vec![
            Cell::left(id, self.id, style),
            Cell::left(started, self.started, style),
            Cell::left(words, self.state, state),
        ];
        cells.extend(self.effort.map(|width| Cell::left(effort, width, style)));
        cells.push(Cell::right(counts, self.counts, style));
        cells.push(Cell::left(host, self.host, style));
        cells.extend(self.kernel.map(|width| Cell::left(kernel, width, style)));
        line_of(&cells, self.gap)
    }
}

/// The runs in the order given, one per line.
pub fn runs(rows: &[RunListing], layout: &Layout) -> String {
    if rows.is_empty() {
        return "No stored runs; `fathom run` makes one.\n".to_owned();
    }
    let ids = ids_by_name(rows);
    let collides = |row: &RunListing| ids[row.host.as_str()].len() > 1;
    let columns = Columns::of(layout.width, rows.iter().any(collides));
    let names = ["run", "started (UTC)", "state", "effort", "valid", "host", "kernel"];
    let mut text = columns.line(names, STRONG, STRONG);
    for row in rows {
        let host = match collides(row) {
            true => {
                let name = cut(&row.host, columns.host.saturating_sub(ID_WIDTH).max(1));
                name_with_id(&name, row.host_id.as_deref())
            }
            false => row.host.clone(),
        };
        let (state, style) = match row.state {
            RunState::Complete => ("complete", PLAIN),
            RunState::Running => ("running", PLAIN),
            RunState::Interrupted => ("interrupted", CARE),
        };
        let counts = format!("{}/{}", row.counts.valid, row.counts.total());
        let started = started(&row.started);
        let effort = row.effort.word();
        let texts = [&row.id, &started, state, effort, &counts, &host, &row.kernel];
        text += &columns.line(texts, PLAIN, style);
        if let Some(label) = &row.label {
            let width = layout.width.max(NARROWEST);
            text += &paint_lines(FAINT, &wrapped(label, width, "  ", "    "));
        }
    }
    let foot = "valid: valid/all cases; `fathom show RUN` shows a run, `fathom compare A B` two";
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
