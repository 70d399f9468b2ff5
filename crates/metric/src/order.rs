//! Lower bounds: a case costs at least a multiple of an earlier case.

use fathom_record::{NoModel, Params, Prediction, Unit};

use crate::{Inputs, earlier};

/// The bound `factor` × an earlier result of this run.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    pub factor: f64,
    pub metric: &'a str,
    /// Why the case cannot cost less.
    pub source: &'a str,
}

impl Order<'_> {
    pub fn claim(&self, params: &Params, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let name = format!("{}{params}", self.metric);
        let limit = earlier(self.metric, params, known)?;
        let formula = match self.factor {
            1.0 => format!("≥ {name}"),
            // A share of what amortises: 1 ÷ 8192 of a call.
            factor if factor < 0.01 => format!("≥ {name} ÷ {:.0}", 1.0 / factor),
            factor => format!("≥ {factor} × {name}"),
        };
        let claim = Prediction::at_least(self.factor * limit, &formula, self.source).if_below(
            "cheaper than an operation that it includes: one of the two results was disturbed, or \
             the kernel has a fast path",
        );
        // The case includes the other.
        let part = self.factor * limit;
        Ok(claim.with_result(&name, limit, Unit::Nanoseconds).with_part(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests;
    use fathom_record::Origin;

    #[test]
    fn order_is_a_lower_bound_with_a_named_input() {
        let params = Params::one("args", 0);
        let records = [tests::record("cpu.call", &params, 1.5, 0.1)];
        let order = Order { factor: 10.0, metric: "cpu.call", source: "why" };
        let claim = order.claim(&params, &Inputs::new(&records)).unwrap();
        assert_eq!((claim.low, claim.high, claim.value), (Some(15.0), None, None));
        assert_eq!(claim.formula, "≥ 10 × cpu.call{args=0}");
        assert_eq!(claim.inputs[0].origin, Origin::this_run("cpu.call{args=0}"));
        assert_eq!((claim.inputs[0].value, claim.source.as_str()), (1.5, "why"));
        let missing = order.claim(&params, &Inputs::new(&[])).unwrap_err();
        let metric = "cpu.call{args=0}".to_owned();
        assert_eq!(missing, NoModel::MissingInput { metric });
    }
}
