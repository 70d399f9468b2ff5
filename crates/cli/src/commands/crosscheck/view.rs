//! Who follows a crosscheck: a person at a terminal, or a reader of JSON.

use fathom_peers::{Peer, Row};
use fathom_record::{CrossOutcome, CrossRow, Crosscheck};
use fathom_report::crosscheck as table;

use crate::arguments::crosscheck::CrosscheckArguments;
use crate::exit::Status;
use crate::terminal::{self, Output};

/// Prints a crosscheck as it goes.
pub(super) struct View {
    output: Output,
    width: usize,
    json: bool,
    verbose: bool,
    pairs: u32,
    /// The peer whose rows are being printed.
    peer: String,
}

impl View {
    pub(super) fn new(arguments: &CrosscheckArguments) -> Self {
        let CrosscheckArguments { json, verbose, pairs, .. } = *arguments;
        let (output, width) = (Output::new(), terminal::width());
        Self { output, width, json, verbose, pairs, peer: String::new() }
    }

    /// Whoever read it has left.
    pub(super) fn has_left(&self) -> bool {
        self.output.is_closed()
    }

    /// Says what will be done; a table begins where there will be rows.
    pub(super) fn begins(&mut self, announcement: &str, has_rows: bool) {
        if self.json {
            return terminal::warn(announcement);
        }
        let mut text = fathom_report::paragraph(announcement, self.width, "", "") + "\n";
        if has_rows {
            text += &table::header(self.width);
        }
        self.output.write(&text);
    }

    /// Tells of the pair that is taken next.
    pub(super) fn pair(&mut self, row: &Row, peer: &dyn Peer, pair: u32) {
        let Some(bar) = self.output.bar("{msg}") else { return };
        let (name, pairs) = (peer.name(), self.pairs);
        bar.set_message(format!("{name} {}: pair {} of {pairs}", row.work, pair + 1));
        bar.tick();
    }

    /// Prints a row that is done, after its peer where that is another.
    pub(super) fn row(&mut self, row: &CrossRow) {
        if self.json {
            return;
        }
        let mut text = String::new();
        if self.peer != row.peer {
            self.peer.clone_from(&row.peer);
            text += &table::peer(row);
        }
        text += &table::row(row, self.width, self.verbose);
        self.output.write(&text);
    }

    /// Prints what remains. That nothing was compared has a status of its own.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(super) fn ends(mut self, document: &Crosscheck) -> anyhow::Result<Status> {
        self.output.clear_bar();
        let text = match self.json {
            true => fathom_report::json(document),
            false => "\n".to_owned() + &table::foot(document, self.width),
        };
        self.output.write(&text);
        let printed = super::super::printed(&self.output)?;
        let stopped = document.rows.iter().any(|row| row.outcome == CrossOutcome::Interrupted);
        Ok(match printed {
            Status::Done if stopped || document.interrupted => Status::Interrupted,
            Status::Done if !document.compares() => Status::Incomplete,
            printed => printed,
        })
    }
}
