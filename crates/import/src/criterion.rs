//! criterion of Rust: the lines of `cargo criterion --message-format json`, and estimates.json of
//! `cargo bench` behind its neighbours benchmark.json, which has the name, and sample.json.

use fathom_record::Params;
use serde::Deserialize;

use crate::json::{self, Number};
use crate::name;
use crate::parsed::{ParsedCase, ParsedKind};
use crate::{ParseError, Parsed};

/// A line, of any of these files.
#[derive(Deserialize)]
struct CriterionLine {
    /// Of a message.
    id: Option<String>,
    iteration_count: Option<Vec<Number>>,
    measured_values: Option<Vec<Number>>,
    unit: Option<String>,
    /// Of benchmark.json.
    full_id: Option<String>,
    /// Of sample.json: all times of so many iterations, in ns.
    iters: Option<Vec<Number>>,
    times: Option<Vec<Number>>,
    /// Of estimates.json and messages.
    median: Option<CriterionEstimate>,
}

#[derive(Deserialize)]
struct CriterionEstimate {
    #[serde(alias = "estimate")]
    point_estimate: Number,
}

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::default();
    let (mut name, mut sample) = (None, None);
    for (at, document) in json::documents(text) {
        let at = |error: ParseError| ParseError::new(at + error.line, error.what);
        let line: CriterionLine = json::read(document, &mut parsed.notes).map_err(at)?;
        sample = line
            .iters
            .zip(line.times)
            .or(line.iteration_count.zip(line.measured_values))
            .or(sample);
        name = line.full_id.or(line.id).or(name);
        let Some(median) = line.median else { continue };
        let Some(name) = name.take() else {
            let what =
                "no name: benchmark.json is beside estimates.json; name the file in its folder";
            return Err(ParseError::new(1, what));
        };
        // `group/function/1000`: the value is the parameter.
        let (plain, value) = name.rsplit_once('/').unwrap_or((&name, ""));
        let is_value = value.parse::<f64>().is_ok();
        let plain = if is_value { plain } else { &name };
        let id = plain.split('/').map(name::safe).collect::<Vec<_>>().join(".");
        let case = ParsedCase::new(&name, id, Params::none());
        let case = if is_value { case.and("arg", value) } else { case };
        let kind = match line.unit.as_deref() {
            None | Some("ns") => ParsedKind::time(0),
            Some(_) => ParsedKind::NUMBER,
        };
        let mut series = case.series(kind);
        let process = parsed.block(&case);
        match sample.take() {
            Some((counts, times)) => {
                let each = counts.iter().zip(&times);
                each.for_each(|(count, time)| series.push(process, time.0 / count.0));
            }
            None => {
                series.push(process, median.point_estimate.0);
                series.notes.push("the median of the file, which has no single times".to_owned());
            }
        }
        let add = parsed.add(series);
        add.map_err(|what| ParseError::at_last(text, &name, what))?;
    }
    Ok(parsed)
}
