//! A known dose of extra work in the kernels of one metric, for laboratories that must see it
//! measured, or a prediction turn to *differs*.

/// Injects work, as `cpu.call=40%`.
pub(crate) const INJECT: &str = "FATHOM_SPIN";
/// No laboratory needs more: a hundred times the kernel itself.
const SHARE_MAX: f64 = 100.0;

/// Extra work in every batched kernel of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct InjectedSpin {
    /// The metric.
    pub metric: String,
    /// The work, as a share of the kernel's own time.
    pub share: f64,
}

impl InjectedSpin {
    /// What the environment asks for, if it does.
    pub(crate) fn of_environment() -> Result<Option<Self>, String> {
        std::env::var(INJECT).ok().map(|text| Self::parse(&text)).transpose()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let refused = |why: &str| {
            format!("{INJECT}={text}: {why}; write it as METRIC=SHARE%, such as cpu.call=40%")
        };
        let (metric, share) = text.split_once('=').ok_or_else(|| refused("no share"))?;
        if fathom_probes::find(metric).is_none() {
            return Err(refused("there is no such metric"));
        }
        let number: Option<f64> = share.strip_suffix('%').and_then(|number| number.parse().ok());
        let percent = number.ok_or_else(|| refused("the share is no percentage"))?;
        match percent / 100.0 {
            share if (0.0..=SHARE_MAX).contains(&share) => {
                Ok(Self { metric: metric.to_owned(), share })
            }
            _ => Err(refused("the share is not from 0 % to 10000 %")),
        }
    }

    /// The share for this metric.
    pub(super) fn share_of(&self, metric: &str) -> f64 {
        if self.metric == metric { self.share } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dose_is_a_metric_and_a_percentage() {
        let spin = InjectedSpin::parse("cpu.call=12.5%").unwrap();
        assert_eq!((spin.share_of("cpu.call"), spin.share_of("os.syscall")), (0.125, 0.0));
        for (text, why) in [
            ("cpu.call", "no share"),
            ("cpu.cal=10%", "no such metric"),
            ("cpu.call=10", "no percentage"),
            ("cpu.call=-1%", "not from 0 %"),
            ("cpu.call=NaN%", "not from 0 %"),
        ] {
            let refused = InjectedSpin::parse(text).unwrap_err();
            assert!(refused.contains(why) && refused.contains(text), "{refused}");
        }
    }
}
