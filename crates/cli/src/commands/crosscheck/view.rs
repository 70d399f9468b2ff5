//! The output of `fathom crosscheck`: a table or JSON.

use fathom_peers::{Peer, Row};
use fathom_record::{CrossOutcome, CrossRow, Crosscheck};
use fathom_report::crosscheck as table;

use crate::arguments::crosscheck::CrosscheckArguments;
use crate::exit::Status;
use crate::terminal::{self, TerminalOutput};

/// Prints a crosscheck while it runs.
pub(super) struct CrosscheckView {
    output: TerminalOutput,
    width: usize,
    json: bool,
    verbose: bool,
    pairs: u32,
    /// The peer whose rows are being printed.
    peer: String,
}

impl CrosscheckView {
    pub(super) fn new(arguments: &CrosscheckArguments) -> Self {
        let CrosscheckArguments { json, verbose, pairs, .. } = *arguments;
        let (output, width) = (TerminalOutput::new(), terminal::width());
        Self { output, width, json, verbose, pairs, peer: String::new() }
    }

    /// Whether the reader of standard output closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.output.is_closed()
    }

    /// Prints the announcement, and the header of the table if it will have rows.
    pub(super) fn print_opening(&mut self, announcement: &str, has_rows: bool) {
        if self.json {
            return terminal::warn(announcement);
        }
        let mut text = fathom_report::paragraph(announcement, self.width, "", "") + "\n";
        if has_rows {
            text += &table::header(self.width);
        }
        self.output.write(&text);
    }

    /// Shows the current pair in the progress bar.
    pub(super) fn pair(&mut self, row: &Row, peer: &dyn Peer, pair: u32) {
        let (pair, all) = (pair + 1, self.pairs);
        let message = format!("pair {pair} of {all}: {} {}", peer.name(), row.work);
        self.output.progress("{msg}", 0.0, &message);
    }

    /// Prints a finished row, after the name of its peer unless the row before has the same.
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

    /// Prints the closing lines or the document.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(super) fn finish(mut self, document: &Crosscheck) -> anyhow::Result<Status> {
        self.output.clear_bar();
        let text = match self.json {
            true => fathom_report::json(document),
            false => "\n".to_owned() + &table::foot(document, self.width),
        };
        self.output.write(&text);
        let printed = super::super::output_status(&self.output)?;
        let stopped = document.rows.iter().any(|row| row.outcome == CrossOutcome::Interrupted);
        Ok(match printed {
            Status::Success if stopped || document.interrupted => Status::Interrupted,
            Status::Success if !document.compares() => Status::Incomplete,
            printed => printed,
        })
    }
}
