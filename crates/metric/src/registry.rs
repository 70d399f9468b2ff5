//! The registry: everything that can be measured, in the order of the table.

use fathom_record::{Host, NoModel, Params, Prediction};

use crate::{About, ByHand, Case, Command, Derived, Known, Probe};

/// A registered metric.
#[derive(Clone, Copy)]
pub enum Entry {
    /// Measured by visits.
    Probe(&'static dyn Probe),
    /// Computed from others.
    Derived(&'static dyn Derived),
    /// Measured by a command of its own only.
    ByHand(&'static dyn ByHand),
}

impl Entry {
    /// What it is.
    pub fn about(&self) -> &'static About {
        match self {
            Self::Probe(probe) => probe.about(),
            Self::Derived(derived) => derived.about(),
            Self::ByHand(by_hand) => by_hand.about(),
        }
    }

    /// What a case should give.
    ///
    /// # Errors
    /// Why there is no model.
    pub fn predict(
        &self,
        params: &Params,
        host: &Host,
        known: &Known<'_>,
    ) -> Result<Prediction, NoModel> {
        match self {
            Self::Probe(probe) => probe.predict(&Case::usual(params.clone()), host, known),
            Self::Derived(derived) => derived.predict(params, host, known),
            Self::ByHand(by_hand) => by_hand.predict(params, host, known),
        }
    }
}

/// All metrics and all commands that measure by hand.
pub struct Registry {
    entries: Vec<Entry>,
    commands: &'static [Command],
}

impl Registry {
    /// The metrics of a battery, then those that only a command gives.
    pub fn new(battery: &[Entry], commands: &'static [Command]) -> Self {
        let by_hand = commands.iter().flat_map(|command| command.metrics);
        let by_hand = by_hand.map(|metric| Entry::ByHand(*metric));
        Self { entries: battery.iter().copied().chain(by_hand).collect(), commands }
    }

    /// Every metric. One stands after those that it needs.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The metric with this id.
    pub fn find(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.about().id == id)
    }

    /// The commands that measure by hand.
    pub fn commands(&self) -> &'static [Command] {
        self.commands
    }

    /// The command that alone gives a metric; none for those that `fathom run` measures.
    pub fn command_of(&self, id: &str) -> Option<&'static Command> {
        let gives = |command: &&Command| command.metrics.iter().any(|one| one.about().id == id);
        self.commands.iter().find(gives)
    }
}
