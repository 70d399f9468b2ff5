//! Rates of an open loop, and how records write them.

use fathom_metric::notation::NotationError;
use fathom_record::ParamValue;

/// Requests a second, ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates(pub Vec<f64>);

const LEAST: f64 = 0.1;
const MOST: f64 = 1e7;
const RATES_MAX: usize = 100;

/// A list of rates. `100..1000` doubles, `100..1000:100` goes by steps; both end with the last.
pub fn rates(text: &str) -> Result<Rates, NotationError> {
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        let wrong = || {
            let example = "such as 500, 100,200,400, 100..1000 (doubles) or 100..1000:100 (steps)";
            NotationError::new(part, format!("{LEAST} to {MOST} requests/s, {example}"))
        };
        let Some((from, to)) = part.split_once("..").or_else(|| part.split_once('…')) else {
            all.push(rate(part).ok_or_else(wrong)?);
            continue;
        };
        let (to, step) = to.split_once(':').map_or((to, None), |(to, step)| (to, Some(step)));
        let (mut at, to) = rate(from).zip(rate(to)).ok_or_else(wrong)?;
        let step = step.map(|step| rate(step).ok_or_else(wrong)).transpose()?;
        if at > to {
            return Err(wrong());
        }
        while at < to && all.len() <= RATES_MAX {
            all.push(at);
            at = step.map_or(2.0 * at, |step| at + step);
        }
        all.push(to);
    }
    all.sort_by(f64::total_cmp);
    all.dedup();
    match all.len() <= RATES_MAX {
        true => Ok(Rates(all)),
        false => Err(NotationError::new(text, format!("at most {RATES_MAX} rates"))),
    }
}

fn rate(text: &str) -> Option<f64> {
    let text = text.trim().replace('_', "");
    let is_number = text.chars().all(|c| c.is_ascii_digit() || ".eE".contains(c));
    let number: f64 = text.parse().ok().filter(|_| is_number)?;
    (LEAST..=MOST).contains(&number).then_some(number)
}

/// The value of the parameter `rate`: whole numbers as such, others as text.
pub fn param(per_second: f64) -> ParamValue {
    match per_second.fract() == 0.0 {
        true => ParamValue::Integer(per_second as i64),
        false => ParamValue::Text(per_second.to_string()),
    }
}

/// `500 requests/s`.
pub fn words(per_second: f64) -> String {
    format!("{per_second} requests/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_of_rates_doubles_or_goes_by_steps() {
        let of = |text: &str| rates(text).map(|rates| rates.0);
        assert_eq!(of("500"), Ok(vec![500.0]));
        assert_eq!(of("400,100, 2.5,100"), Ok(vec![2.5, 100.0, 400.0]));
        assert_eq!(of("100..1000"), Ok(vec![100.0, 200.0, 400.0, 800.0, 1000.0]));
        assert_eq!(of("1e2..350:100"), Ok(vec![100.0, 200.0, 300.0, 350.0]));
        assert_eq!(of("5…5"), Ok(vec![5.0]));
        for text in
            ["", "0", "-1", "x", "1..", "..5", "9..3", "1..9:0", "1e8", "inf", "NaN", "1,,2"]
        {
            let error = rates(text).expect_err(text).to_string();
            assert!(error.contains("expected 0.1 to 10000000 requests/s"), "{error}");
        }
        let many = rates("1..1000:1").expect_err("too many").to_string();
        assert_eq!(many, "`1..1000:1`: expected at most 100 rates");
        let params = [500.0, 2.5].map(|rate| param(rate).to_string());
        assert_eq!(params, ["500", "2.5"]);
    }
}
