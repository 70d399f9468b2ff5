//! What a coordinator does with its members: their documents are checked, stored and kept for the
//! judgement; progress is shown.

use std::collections::BTreeSet;

use fathom_analysis::fleet::names::fold;
use fathom_analysis::typical;
use fathom_fleet::{Audience, Counts, Joined, Skew};
use fathom_record::{Document, Host, RunState};

use super::bare;
use super::engine::Engine;
use crate::commands::documents;
use crate::commands::run_store::RunStore;
use crate::terminal::{self, Output, PERCENT_BAR};

/// Lines on connections that did not become members, at most: anyone can open one.
const REFUSALS_MAX: usize = 10;

pub(super) struct Gathering {
    engine: Engine,
    store: RunStore,
    label: String,
    /// The command whose runs are delivered, if it is not `fathom run`.
    procedure: Option<&'static str>,
    output: Output,
    /// Names of those that were lost.
    lost: BTreeSet<String>,
    /// What the engine calls those that joined.
    nodes: BTreeSet<String>,
    /// What was delivered, without samples.
    pub(super) runs: Vec<Document>,
    refusals: usize,
}

impl Gathering {
    pub(super) fn new(
        engine: Engine,
        store: RunStore,
        label: String,
        procedure: Option<&'static str>,
    ) -> Self {
        Self {
            engine,
            store,
            label,
            procedure,
            output: Output::new(),
            lost: BTreeSet::new(),
            nodes: BTreeSet::new(),
            runs: Vec::new(),
            refusals: 0,
        }
    }

    /// Ends what the engine has started. Returns those that never joined, and why.
    pub(super) fn end(&mut self) -> Vec<(String, String)> {
        self.output.clear_bar();
        self.engine.end(&self.nodes)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.store.has_failed()
    }

    fn warn(&mut self, text: &str) {
        self.output.clear_bar();
        terminal::warn(text);
    }

    /// Stores a document that was checked.
    fn keep(&mut self, mut document: Document) -> Result<(), String> {
        let id = &document.run.id;
        let known = || Err(format!("run {id} exists already"));
        if self.runs.iter().any(|run| run.run.id == *id) {
            return known();
        }
        let mut is_new = true;
        let warnings = self.store.write(|store| {
            is_new = store.import(&document)?;
            Ok(Vec::new())
        });
        if !is_new {
            return known();
        }
        warnings.iter().for_each(|warning| self.warn(warning));
        typical::fill(&mut document);
        self.runs.push(bare(document));
        Ok(())
    }
}

impl Audience for Gathering {
    fn joined(&mut self, member: &Joined) {
        self.nodes.extend(member.node.clone());
    }

    fn delivered(
        &mut self,
        member: &Joined,
        partner: Option<&Joined>,
        skew: Option<Skew>,
        document: &[u8],
    ) -> Result<(), String> {
        let mut document = checked((member, partner), document, self.procedure)?;
        document.run.label = Some(self.label.clone());
        document.run.notes.extend(skew.map(|skew| {
            format!(
                "started together with others, {:+.3} ms from the announced time (± {:.3} ms)",
                skew.ns / 1e6,
                skew.error_ns / 1e6
            )
        }));
        self.keep(document)
    }

    fn lost(&mut self, member: &Joined, reason: &str) {
        self.lost.insert(member.name.clone());
        self.warn(&format!("lost {}: {reason}", member.name));
    }

    fn refused(&mut self, reason: &str) {
        self.refusals += 1;
        match self.refusals {
            few if few < REFUSALS_MAX => self.warn(&format!("refused a connection: {reason}")),
            REFUSALS_MAX => self.warn("refused a connection; further ones are not shown"),
            _ => {}
        }
    }

    fn tick(&mut self, counts: &Counts) -> usize {
        let failed = self.engine.tick(&self.nodes);
        for (node, reason) in &failed {
            self.warn(&format!("{node} does not join: {reason}"));
        }
        if terminal::shows_progress() {
            let done = (1000.0 * counts.done) as u64;
            self.output.progress(PERCENT_BAR, done, 1000, &self.progress(counts));
        }
        self.engine.failures()
    }
}

impl Gathering {
    /// `12 of 40 joined, 8 measuring, 3 done, 1 lost: node7`.
    fn progress(&self, counts: &Counts) -> String {
        let mut parts = vec![format!("{} of {} joined", counts.joined, self.engine.expected())];
        let mut add = |count: usize, what: &str, names: &BTreeSet<String>| {
            let names = fold(names.iter().map(String::as_str));
            let names = if names.is_empty() { names } else { format!(": {names}") };
            parts.extend((count > 0).then(|| format!("{count} {what}{names}")));
        };
        let nobody = BTreeSet::new();
        add(counts.measuring, "measuring", &nobody);
        let [round, rounds] = counts.round;
        // Of several rounds it is over for all at once.
        add(if rounds > 1 { 0 } else { counts.delivered }, "done", &nobody);
        add(counts.lost, "lost", &self.lost);
        parts.extend((rounds > 1).then(|| format!("step {round} of {rounds}")));
        parts.join(", ")
    }
}

/// The one run in these bytes, which must be of this member, and to its partner if it has one.
fn checked(
    (member, partner): (&Joined, Option<&Joined>),
    document: &[u8],
    procedure: Option<&str>,
) -> Result<Document, String> {
    let name = format!("the run of {}", member.name);
    let read = documents::read(document, &name).map_err(|error| error.to_string())?;
    let [mut document] = <[Document; 1]>::try_from(read)
        .map_err(|read| format!("it delivered {} runs, one is expected", read.len()))?;
    let key = |host: &Host| (host.name.clone(), host.identity().to_owned());
    let found = &document.host;
    if key(found) != key(&member.host) {
        return Err(format!("it delivered a run of another host, {}", found.name));
    }
    let far = document.far.iter().map(|far| key(&far.host));
    if far.collect::<Vec<_>>() != Vec::from_iter(partner.map(|partner| key(&partner.host))) {
        return Err("it delivered a run to another host than it was to measure to".to_owned());
    }
    if document.run.procedure.as_deref() != procedure {
        return Err("it delivered a run of another command".to_owned());
    }
    if document.run.state == RunState::Running {
        // It will never be completed here.
        document.run.state = RunState::Interrupted;
    }
    Ok(document)
}
