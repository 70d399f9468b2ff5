//! The statistics behind summaries and comparisons.
//!
//! Every function is pure: the same values and the same seed give the same result on every machine.
//! docs/METHOD.md defines what they compute (cited as "rule 15"), and `tests/analysis/golden.rs`
//! compares them with SciPy.
//!
//! Only what the method uses: no pooled standard error, no removal of outliers, and a t-test only
//! for the history of a metric, whose values are medians of whole runs. Thresholds for verdicts are
//! in [`crate::judge`].
//!
//! Every function ignores values that are not finite, and so never returns NaN or infinity.

mod bootstrap;
mod bound;
mod change_points;
mod clusters;
mod concordance;
mod density;
mod dip;
mod discovery;
mod interval;
mod levels;
mod line;
mod modes;
mod moments;
mod outliers;
mod quantile;
mod rank_test;
mod scale;
mod series;
mod shuffle;
mod sign_test;
mod student;
mod summarise;
mod trend;
mod trimmed;
mod within_run;

pub use bootstrap::{Ratio, ratio_of_medians, ratio_to_runs};
pub(crate) use bootstrap::{Z_90, Z_95, index};
pub use bound::difference_bound;
pub use change_points::{Candidates, ChangePoint, Strictness, change_points};
pub use clusters::clusters;
pub use concordance::concordance;
pub use dip::dip;
pub use discovery::benjamini_hochberg;
pub use interval::{OrderInterval, median_interval, order_interval, standard_error};
pub use levels::two_levels;
pub use line::{Line, line};
pub use modes::modes;
pub use moments::{mean, standard_deviation};
pub use outliers::tukey_outliers;
pub(crate) use quantile::sorted_finite;
pub use quantile::{median, quantile, relative_spread};
pub use rank_test::{MannWhitney, mann_whitney};
pub use scale::{qn, qn_freedom};
pub use series::{autocorrelation, block_means, rank_autocorrelation};
pub use shuffle::shuffled;
pub use sign_test::sign_test;
pub use student::{
    Student, mean_half_width, prediction_half_width, student, student_limit, student_tails,
};
pub use summarise::{summarise, summarise_estimates, summarise_quotients};
pub use trend::{Trend, theil_sen};
pub use trimmed::{trials_for, trimmed, trimmed_over};
