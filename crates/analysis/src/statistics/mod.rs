//! The statistics that turn samples into summaries, and summaries into comparisons.
//!
//! Every function is pure: the same values, and the same seed where chance plays a part, give the
//! same answer on every machine. What they compute is fixed by the method (its rules are cited as
//! "rule 15"), and checked against SciPy in `tests/golden.rs`.
//!
//! This is deliberately not a statistics library: no pooled standard error, no removal of outliers,
//! because the method never uses them; a t-test for the history of a metric only, whose values are
//! medians of whole runs. It passes no judgement either: thresholds
//! that turn a number into a word live in [`crate::judge`].
//!
//! Values that are not finite are left out wherever a sample is taken in, so that no function
//! here returns NaN or infinity for the sake of one bad value.

mod bootstrap;
mod bound;
mod change_points;
mod clusters;
mod density;
mod dip;
mod discovery;
mod interval;
mod line;
mod modes;
mod moments;
mod outliers;
mod quantile;
mod rank_test;
mod series;
mod student;
mod summarise;
mod trend;
mod trimmed;
mod within_run;

pub use bootstrap::{Ratio, ratio_of_medians, ratio_to_runs};
pub use bound::difference_bound;
pub use change_points::{ChangePoint, Strictness, change_points};
pub use clusters::clusters;
pub use dip::dip;
pub use discovery::benjamini_hochberg;
pub use interval::{OrderInterval, median_interval, order_interval};
pub use line::{Line, line};
pub use modes::modes;
pub use moments::{mean, standard_deviation};
pub use outliers::tukey_outliers;
pub(crate) use quantile::sorted_finite;
pub use quantile::{median, printable_quantile, quantile};
pub use rank_test::{MannWhitney, mann_whitney};
pub use series::{autocorrelation, block_means, rank_autocorrelation};
pub use student::{Student, next_within, student};
pub use summarise::{summarise, summarise_estimates, summarise_quotients};
pub use trend::{Trend, theil_sen};
pub use trimmed::{trials_for, trimmed, trimmed_over};
