//! hyperfine: the JSON of `--export-json`. Its runs are fresh processes of the command, but one
//! block in time: they are the rounds of one process, so that drift is seen.

use std::collections::BTreeMap;

use fathom_record::{Params, Unit};
use serde::Deserialize;

use crate::json::{self, Number};
use crate::name;
use crate::parsed::{ParsedKind, ParsedSeries};
use crate::{ParseError, Parsed};

#[derive(Deserialize)]
struct HyperfineOutput {
    results: Vec<HyperfineCommand>,
}

#[derive(Deserialize)]
struct HyperfineCommand {
    command: String,
    median: Option<Number>,
    user: Option<Number>,
    system: Option<Number>,
    times: Option<Vec<Number>>,
    memory_usage_byte: Option<Vec<Number>>,
    exit_codes: Option<Vec<Option<i32>>>,
    #[serde(default)]
    parameters: BTreeMap<String, String>,
}

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let output: HyperfineOutput = json::read(text, 0)?;
    let mut parsed = Parsed::default();
    for command in output.results {
        let series = command.series();
        let Some(series) = series.filter(|series| !series.is_empty()) else {
            let what = format!("`{}` has neither `times` nor `median`", command.command);
            return Err(ParseError::at_last(text, &command.command, what));
        };
        for one in series {
            let added = parsed.add_new(one, "name the commands, -n");
            added.map_err(|what| ParseError::at_last(text, &command.command, what))?;
        }
    }
    Ok(parsed)
}

impl HyperfineCommand {
    fn series(&self) -> Option<Vec<ParsedSeries>> {
        let (title, id) = (name::title(&self.command), name::safe(&self.command));
        let pairs = self.parameters.iter();
        let params = pairs.fold(Params::none(), |all, (key, value)| name::with(all, key, value));
        let mut wall = ParsedSeries::new(&title, &id, &params, ParsedKind::SECONDS);
        match (&self.times, self.median) {
            (Some(times), _) if !times.is_empty() => {
                times.iter().for_each(|time| wall.push(0, time.0));
            }
            (_, Some(median)) => {
                wall.push(0, median.0);
                wall.notes.push("the median of the file, which has no single times".to_owned());
            }
            _ => return None,
        }
        let codes = self.exit_codes.iter().flatten();
        let failed = codes.clone().filter(|code| **code != Some(0)).count();
        if failed > 0 {
            let all = codes.count();
            wall.remark =
                Some(format!("{failed} of {all} runs ended with another exit status than 0"));
        }
        let mut all = vec![wall];
        for (aspect, value) in [("user", self.user), ("system", self.system)] {
            let series = || ParsedSeries::aspect(&title, &id, aspect, &params, ParsedKind::SECONDS);
            all.extend(value.map(|value| series().with(0, value.0)));
        }
        if let Some(sizes) = self.memory_usage_byte.as_ref().filter(|sizes| !sizes.is_empty()) {
            let kind = ParsedKind::amount(Unit::Bytes);
            let mut memory = ParsedSeries::aspect(&title, &id, "memory", &params, kind);
            sizes.iter().for_each(|size| memory.push(0, size.0));
            all.push(memory);
        }
        Some(all)
    }
}
