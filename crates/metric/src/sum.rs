//! Predictions that are weighted sums of earlier results of the run.

use fathom_record::{NoModel, Params, Prediction, Unit};

use crate::Inputs;
use crate::earlier;

pub struct Term<'a> {
    pub times: f64,
    pub metric: &'a str,
    pub params: Params,
}

impl<'a> Term<'a> {
    pub fn new(times: f64, metric: &'a str, params: Params) -> Self {
        Self { times, metric, params }
    }

    /// A result that is in the sum once.
    pub fn once(metric: &'a str, params: Params) -> Self {
        Self::new(1.0, metric, params)
    }
}

/// A prediction as a weighted sum.
pub struct Sum<'a> {
    pub terms: &'a [Term<'a>],
    /// Relative tolerance in both directions.
    pub tolerance: f64,
    pub source: &'a str,
    /// What a value outside the tolerance means.
    pub otherwise: &'a str,
}

impl Sum<'_> {
    pub fn predict(&self, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let (mut total, mut hardware) = (0.0, 0.0);
        let mut formula = String::new();
        let mut inputs = Vec::new();
        for Term { times, metric, params } in self.terms {
            let value = earlier(metric, params, known)?;
            let name = format!("{metric}{params}");
            total += times * value;
            hardware += times * value * known.hardware_share(metric, params);
            formula += match (formula.is_empty(), *times < 0.0) {
                (true, false) => "",
                (true, true) => "−",
                (false, false) => " + ",
                (false, true) => " − ",
            };
            formula += &match times.abs() {
                1.0 => name.clone(),
                times => format!("{times} × {name}"),
            };
            inputs.push((name, value, times * value));
        }
        if total <= 0.0 {
            return Err(NoModel::NoTime { formula, value: total });
        }
        // A term that has no model, or none of two parts, is software time.
        let hardware = hardware.clamp(0.0, total);
        let software = total - hardware;
        let sum = Prediction::sum(hardware, software, self.tolerance, &formula, self.source);
        let with = |sum: Prediction, (name, value, part): &(String, f64, f64)| {
            sum.with_result(name, *value, Unit::Nanoseconds).with_part(*part)
        };
        Ok(inputs.iter().fold(sum, with).otherwise(self.otherwise))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests;
    use fathom_record::Origin;

    fn predicted(times: [f64; 2]) -> Result<Prediction, NoModel> {
        let none = Params::none();
        let switch = Params::one("set_bytes", 0);
        let records = [
            tests::record("os.switch.process", &switch, 1500.0, 10.0),
            tests::record("cpu.call", &none, 100.0, 1.0),
        ];
        let terms = [
            Term { times: times[0], metric: "os.switch.process", params: switch },
            Term { times: times[1], metric: "cpu.call", params: none },
        ];
        let sum = Sum { terms: &terms, tolerance: 0.2, source: "why", otherwise: "a queue" };
        sum.predict(&Inputs::new(&records))
    }

    #[test]
    fn sum_adds_terms_and_names_their_origin() {
        let sum = predicted([2.0, -1.0]).unwrap();
        assert_eq!((sum.value, sum.low, sum.high), (Some(2900.0), Some(2320.0), Some(3480.0)));
        assert_eq!(sum.formula, "2 × os.switch.process{set_bytes=0} − cpu.call");
        assert_eq!(sum.inputs[1].origin, Origin::this_run("cpu.call"));
        assert_eq!((sum.inputs[0].value, sum.if_above.as_str()), (1500.0, "a queue"));
        let parts: Vec<Option<f64>> = sum.inputs.iter().map(|it| it.part).collect();
        assert_eq!(parts, [Some(3000.0), Some(-100.0)], "they add up to the value");
    }

    #[test]
    fn negative_sum_or_missing_term_has_no_model() {
        let none = predicted([1.0, -20.0]).unwrap_err();
        assert!(matches!(none, NoModel::NoTime { value, .. } if value == -500.0), "{none:?}");
        let terms = [Term { times: 1.0, metric: "os.missing", params: Params::none() }];
        let sum = Sum { terms: &terms, tolerance: 0.1, source: "why", otherwise: "" };
        let metric = "os.missing".to_owned();
        assert_eq!(sum.predict(&Inputs::new(&[])), Err(NoModel::MissingInput { metric }));
    }
}
