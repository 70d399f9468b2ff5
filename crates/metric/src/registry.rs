//! The registry of all metrics, in the order of the result table.

use fathom_record::{Host, NoModel, Params, Prediction};

use crate::{About, ByHand, Command, Derived, Inputs, Probe, ProbeCase};

#[derive(Clone, Copy)]
pub enum Entry {
    /// Measured by visits of worker processes.
    Probe(&'static dyn Probe),
    /// Computed from other metrics.
    Derived(&'static dyn Derived),
    /// Measured only by a command of its own.
    ByHand(&'static ByHand),
}

impl Entry {
    pub fn about(&self) -> &'static About {
        match self {
            Self::Probe(probe) => probe.about(),
            Self::Derived(derived) => derived.about(),
            Self::ByHand(by_hand) => &by_hand.0,
        }
    }

    pub fn is_by_hand(&self) -> bool {
        matches!(self, Self::ByHand(_))
    }

    pub fn predict(
        &self,
        params: &Params,
        host: &Host,
        known: &Inputs<'_>,
    ) -> Result<Prediction, NoModel> {
        match self {
            Self::Probe(probe) => probe.predict(&ProbeCase::usual(params.clone()), host, known),
            Self::Derived(derived) => derived.predict(params, host, known),
            Self::ByHand(by_hand) => (by_hand.1)(params, host, known),
        }
    }
}

/// All metrics, and all commands that measure without workers.
pub struct Registry {
    entries: Vec<Entry>,
    commands: &'static [Command],
}

impl Registry {
    /// `battery`: the metrics of `fathom run`.
    pub fn new(battery: &[Entry], commands: &'static [Command]) -> Self {
        let by_hand = commands.iter().flat_map(|command| command.metrics);
        let by_hand = by_hand.map(|metric| Entry::ByHand(metric));
        Self { entries: battery.iter().copied().chain(by_hand).collect(), commands }
    }

    /// Every metric, after the metrics that it needs.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn find(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.about().id == id)
    }

    pub fn commands(&self) -> &'static [Command] {
        self.commands
    }

    /// The command that measures this metric, unless `fathom run` does.
    pub fn command_of(&self, id: &str) -> Option<&'static Command> {
        let measures = |command: &&Command| command.metrics.iter().any(|one| one.0.id == id);
        self.commands.iter().find(measures)
    }
}
