//! Description of a metric as data. `fathom explain` and docs/METRICS.md print it.

use fathom_record::{Better, Counters, Unit};

#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Stable id, such as `os.syscall`.
    pub id: &'static str,
    /// Shown in tables, at most 32 characters.
    pub title: &'static str,
    pub unit: Unit,
    pub better: Better,
    /// The work between the start and the stop timestamp.
    pub timed: &'static str,
    /// Work outside the timestamps that a reader could expect to be included.
    pub not_timed: &'static str,
    /// Formula of the prediction, or the reason for having none.
    pub model: &'static str,
    /// Sources of the formula and its constants.
    pub source: &'static str,
    /// Common measurement errors, and how the probe avoids each.
    pub pitfalls: &'static [&'static str],
    pub parameters: &'static [Parameter],
    /// Metrics whose results the prediction or the derivation uses.
    pub needs: &'static [&'static str],
    /// Requirements beyond those of an unprivileged process on one CPU; empty for none.
    pub requires: &'static str,
    /// A published figure for scale; empty for none.
    pub published: &'static str,
    /// Counters that the measured work increments itself; they never count as a disturbance.
    pub expects: Counters,
    /// Whether values are differences: printed as a bound where the interval includes 0 (METHOD 6).
    pub is_difference: bool,
    /// Whether one visit measures all cases. False where the state that one case leaves in caches,
    /// predictors or the scheduler changes the cost of the next.
    pub cases_share_visits: bool,
    /// Disk space that a visit uses.
    pub disk: Option<MetricDisk>,
    /// Whether work on several CPUs is on the two of the visit. False where the cases name their
    /// CPUs, or use all: on those two only if the host has no others.
    pub on_two_cpus: bool,
    /// Whether the other end of its connections may be on the remote host of the run.
    pub has_far_end: bool,
    /// Largest relative half width of the confidence interval on an idle machine. A wider
    /// interval makes the record noisy.
    pub noise_limit: f64,
}

/// What has an [`About`]. [`metric!`](crate::metric) implements it.
pub trait HasAbout: Sync {
    fn about(&self) -> &'static About;
}

/// `metric!(Wake, ABOUT)` declares the type `Wake` of a metric with this description, which is a
/// static; `metric!(Rtt.about)` is for a type of several metrics, each with its own in a field.
#[macro_export]
macro_rules! metric {
    ($name:ident, $about:ident) => {
        pub struct $name;
        $crate::metric!(@ $name, self, &$about);
    };
    ($name:ident.$field:ident) => {
        $crate::metric!(@ $name, self, self.$field);
    };
    (@ $name:ident, $self:ident, $about:expr) => {
        impl $crate::HasAbout for $name {
            fn about(&$self) -> &'static $crate::About {
                $about
            }
        }
    };
}

impl About {
    /// Defaults of a CPU-bound metric without parameters, inputs and requirements.
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
        is_difference: false,
        cases_share_visits: true,
        disk: None,
        on_two_cpus: true,
        has_far_end: false,
        noise_limit: 0.05,
    };

    /// The part of the id before the first dot.
    pub fn group(&self) -> &'static str {
        self.id.split('.').next().unwrap_or(self.id)
    }
}

/// Disk space that a probe uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricDisk {
    /// Bytes of the shared large file that it reads; 0 for none.
    pub large: u64,
    /// Peak bytes that one visit writes.
    pub own: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub values: &'static str,
    pub meaning: &'static str,
}

impl Parameter {
    pub const fn new(name: &'static str, values: &'static str, meaning: &'static str) -> Self {
        Self { name, values, meaning }
    }
}
