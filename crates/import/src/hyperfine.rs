//! hyperfine: the JSON of `--export-json`. Its runs are fresh processes of the command, but one
//! block in time: they are the rounds of one process, so that drift is seen.

use std::collections::BTreeMap;

use fathom_record::{Params, Unit};
use serde::Deserialize;

use crate::json::{self, Number};
use crate::name;
use crate::parsed::{ParsedCase, ParsedKind, ParsedSeries};
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
    let mut parsed = Parsed::default();
    let output: HyperfineOutput = json::read(text, &mut parsed.notes)?;
    for command in output.results {
        let case = command.case();
        // A command that was given twice was measured twice.
        let block = parsed.block(&case);
        for one in command.series(&case, block) {
            let added = parsed.add(one);
            added.map_err(|what| ParseError::at_last(text, &command.command, what))?;
        }
    }
    Ok(parsed)
}

impl HyperfineCommand {
    fn case(&self) -> ParsedCase {
        let case = ParsedCase::new(&self.command, name::safe(&self.command), Params::none());
        self.parameters.iter().fold(case, |case, (key, value)| {
            let name = format!("{} {key}={value}", case.name);
            ParsedCase { name, ..case.and(key, value) }
        })
    }

    fn series(&self, case: &ParsedCase, block: usize) -> Vec<ParsedSeries> {
        let mut wall = case.series(ParsedKind::SECONDS);
        match (&self.times, self.median) {
            (Some(times), _) if !times.is_empty() => {
                times.iter().for_each(|time| wall.push(block, time.0));
            }
            (_, Some(median)) => {
                wall.push(block, median.0);
                wall.notes.push("the median of the file, which has no single times".to_owned());
            }
            _ => wall.missing = Some("the file has neither `times` nor `median`".to_owned()),
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
            let series = || case.aspect(aspect, ParsedKind::SECONDS);
            all.extend(value.map(|value| series().with(block, value.0)));
        }
        if let Some(sizes) = self.memory_usage_byte.as_ref().filter(|sizes| !sizes.is_empty()) {
            let mut memory = case.aspect("memory", ParsedKind::amount(Unit::Bytes));
            sizes.iter().for_each(|size| memory.push(block, size.0));
            all.push(memory);
        }
        all
    }
}
