//! Predictions by order: a case costs at least so many times what an earlier case did.

use fathom_record::{NoModel, Params, Prediction, Unit};

use crate::Known;

/// Why one case cannot cost less than `factor` times another of this run.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// So many times as much at least.
    pub factor: f64,
    /// The other metric.
    pub metric: &'a str,
    /// Why.
    pub source: &'a str,
}

impl Order<'_> {
    /// The claim against one case of the other metric.
    pub fn claim(&self, params: &Params, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let name = format!("{}{params}", self.metric);
        let limit = earlier(self.metric, params, known)?;
        let lower = limit;
        let formula = match self.factor {
            1.0 => format!("≥ {name}"),
            factor => format!("≥ {factor} × {name}"),
        };
        let claim = Prediction::at_least(self.factor * lower, &formula, self.source).if_below(
            "cheaper than what it contains or exceeds everywhere: one of the two results was \
                 spoilt, or the kernel takes a short cut",
        );
        Ok(claim.with_result(&name, lower, Unit::Nanoseconds))
    }
}

/// A result of this run, or that it is missing.
pub fn earlier(metric: &str, params: &Params, known: &Known<'_>) -> Result<f64, NoModel> {
    known
        .quantity(metric, params)
        .ok_or_else(|| NoModel::MissingInput { metric: format!("{metric}{params}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests;
    use fathom_record::Origin;

    #[test]
    fn the_claim_is_a_lower_limit_with_its_input_named() {
        let params = Params::one("args", 0);
        let records = [tests::record("cpu.call", &params, 1.5, 0.1)];
        let order = Order { factor: 10.0, metric: "cpu.call", source: "why" };
        let claim = order.claim(&params, &Known::new(&records)).unwrap();
        assert_eq!((claim.low, claim.high, claim.value), (Some(15.0), None, None));
        assert_eq!(claim.formula, "≥ 10 × cpu.call{args=0}");
        assert_eq!(claim.inputs[0].origin, Origin::this_run("cpu.call{args=0}"));
        assert_eq!((claim.inputs[0].value, claim.source.as_str()), (1.5, "why"));
        let missing = order.claim(&params, &Known::new(&[])).unwrap_err();
        let metric = "cpu.call{args=0}".to_owned();
        assert_eq!(missing, NoModel::MissingInput { metric });
    }
}
