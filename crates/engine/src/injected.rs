//! A known dose of extra work in the kernels of one metric, for tests of the measurement and of
//! predictions.

use fathom_measure::sampler::InjectedDose;
use fathom_metric::Registry;

/// The environment variable: `cpu.call=40%`, or `cpu.call=0..60%` to grow over the rounds of a
/// visit.
pub const INJECT: &str = "FATHOM_SPIN";
/// A hundred times the kernel itself.
const SHARE_MAX: f64 = 100.0;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{INJECT}={text}: {problem}; write it as METRIC=SHARE%, such as cpu.call=40% or cpu.call=0..60%"
)]
pub struct InjectError {
    text: String,
    problem: &'static str,
}

/// Extra work in every batched kernel of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct InjectedSpin {
    pub metric: String,
    /// Relative to the kernel's own time.
    pub dose: InjectedDose,
}

impl InjectedSpin {
    /// The dose from the environment.
    ///
    /// # Errors
    /// If the variable does not name a metric and a share.
    pub fn of_environment(registry: &Registry) -> Result<Option<Self>, InjectError> {
        std::env::var(INJECT).ok().map(|text| Self::parse(&text, registry)).transpose()
    }

    fn parse(text: &str, registry: &Registry) -> Result<Self, InjectError> {
        let refused = |problem| InjectError { text: text.to_owned(), problem };
        let (metric, share) = text.split_once('=').ok_or_else(|| refused("no share"))?;
        if registry.find(metric).is_none() {
            return Err(refused("no such metric"));
        }
        let percents = share.strip_suffix('%').and_then(|shares| {
            let (first, last) = shares.split_once("..").unwrap_or((shares, shares));
            Some((first.parse::<f64>().ok()?, last.parse::<f64>().ok()?))
        });
        let (first, last) = percents.ok_or_else(|| refused("the share is not a percentage"))?;
        let dose = InjectedDose { first: first / 100.0, last: last / 100.0 };
        if [dose.first, dose.last].iter().all(|it| (0.0..=SHARE_MAX).contains(it)) {
            Ok(Self { metric: metric.to_owned(), dose })
        } else {
            Err(refused("the share is not between 0 % and 10000 %"))
        }
    }

    pub(crate) fn dose_of(&self, metric: &str) -> InjectedDose {
        if self.metric == metric { self.dose } else { InjectedDose::default() }
    }
}

#[cfg(test)]
mod tests {
    use fathom_probes::REGISTRY;

    use super::*;

    #[test]
    fn dose_is_a_metric_and_a_percentage() {
        let spin = InjectedSpin::parse("cpu.call=12.5%", &REGISTRY).unwrap();
        assert_eq!(spin.dose_of("cpu.call"), InjectedDose::steady(0.125));
        assert_eq!(spin.dose_of("os.syscall"), InjectedDose::default());
        let ramp = InjectedSpin::parse("cpu.call=0..60%", &REGISTRY).unwrap();
        assert_eq!(ramp.dose, InjectedDose { first: 0.0, last: 0.6 });
        for (text, why) in [
            ("cpu.call", "no share"),
            ("cpu.cal=10%", "no such metric"),
            ("cpu.call=10", "not a percentage"),
            ("cpu.call=-1%", "not between 0 %"),
            ("cpu.call=NaN%", "not between 0 %"),
            ("cpu.call=0..x%", "not a percentage"),
            ("cpu.call=0..-1%", "not between 0 %"),
        ] {
            let refused = InjectedSpin::parse(text, &REGISTRY).unwrap_err().to_string();
            assert!(refused.contains(why) && refused.contains(text), "{refused}");
        }
    }
}
