//! What a metric is, as data: `fathom explain` and docs/METRICS.md are printed from it.

use fathom_record::{Better, Counters, Unit};

/// Everything a reader needs to know about a metric.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Stable id, such as `os.syscall`.
    pub id: &'static str,
    /// A few words for a table.
    pub title: &'static str,
    /// Base unit of its values.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// What lies between the two stamps.
    pub timed: &'static str,
    /// What a reader might think is timed, and is not.
    pub not_timed: &'static str,
    /// The formula of the prediction, or why there is none.
    pub model: &'static str,
    /// Where the formula and its constants come from.
    pub source: &'static str,
    /// What goes wrong when one measures this carelessly, and what this probe does about it.
    pub pitfalls: &'static [&'static str],
    /// The parameters of its cases.
    pub parameters: &'static [Parameter],
    /// Metrics whose results its prediction, or its derivation, uses.
    pub needs: &'static [&'static str],
    /// What it needs of the machine beyond an ordinary user's rights; empty for nothing.
    pub requires: &'static str,
    /// A published figure for scale; empty for none.
    pub published: &'static str,
    /// The counters that the work itself moves, which then accuse nobody.
    pub expects: Counters,
    /// The widest relative half width of the interval of an undisturbed, quiet machine. Above it
    /// the number is marked noisy.
    pub noise_limit: f64,
}

impl About {
    /// What most metrics have in common: no parameters and no needs, nothing required, no published
    /// figure, and work that only computes. All else is for each to say.
    pub const BASE: Self = Self {
        id: "",
        title: "",
        unit: Unit::Nanoseconds,
        better: Better::Lower,
        timed: "",
        not_timed: "",
        model: "",
        source: "",
        pitfalls: &[],
        parameters: &[],
        needs: &[],
        requires: "",
        published: "",
        expects: Counters::NONE,
        noise_limit: 0.05,
    };

    /// The part of the id before the first dot.
    pub fn group(&self) -> &'static str {
        self.id.split('.').next().unwrap_or(self.id)
    }
}

/// One parameter of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: &'static str,
    /// What it changes.
    pub meaning: &'static str,
}
