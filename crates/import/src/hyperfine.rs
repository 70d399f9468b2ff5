//! hyperfine: the JSON of `--export-json`. Its runs are fresh processes of the command, but one
//! block in time: they are the rounds of one process, so that drift is seen.

use std::collections::BTreeMap;

use fathom_record::{Params, Unit};
use serde::Deserialize;

use crate::json::{self, Number, Text};
use crate::name;
use crate::parsed::{ParsedCase, ParsedKind, ParsedSeries};
use crate::{ParseError, Parsed};

#[derive(Deserialize)]
struct HyperfineOutput {
    results: Vec<HyperfineCommand>,
}

#[derive(Deserialize)]
struct HyperfineCommand {
    #[serde(default, deserialize_with = "json::if_valid")]
    command: Option<Text>,
    mean: Option<Number>,
    median: Option<Number>,
    user: Option<Number>,
    system: Option<Number>,
    #[serde(default, deserialize_with = "json::if_valid")]
    times: Option<Vec<Number>>,
    #[serde(default, deserialize_with = "json::if_valid")]
    memory_usage_byte: Option<Vec<Number>>,
    #[serde(default, deserialize_with = "json::if_valid")]
    exit_codes: Option<Vec<Option<i64>>>,
    #[serde(default, deserialize_with = "json::if_valid")]
    parameters: BTreeMap<String, Text>,
}

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::default();
    let output: HyperfineOutput = json::read(text, &mut parsed.notes)?;
    for (at, command) in output.results.iter().enumerate() {
        let Some(Text(name)) = &command.command else {
            parsed.notes.push(format!("result {} has no command and is left out", at + 1));
            continue;
        };
        let case = command.case(name);
        // A command that was given twice was measured twice.
        let block = parsed.block(&case);
        for one in command.series(&case, block) {
            let added = parsed.add(one);
            added.map_err(|what| ParseError::at_last(text, name, what))?;
        }
    }
    Ok(parsed)
}

impl HyperfineCommand {
    fn case(&self, command: &str) -> ParsedCase {
        let case = ParsedCase::new(command, name::safe(command), Params::none());
        self.parameters.iter().fold(case, |case, (key, Text(value))| {
            let name = format!("{} {key}={value}", case.name);
            ParsedCase { name, ..case.and(key, value) }
        })
    }

    fn series(&self, case: &ParsedCase, block: usize) -> Vec<ParsedSeries> {
        let mut wall = case.series(ParsedKind::SECONDS);
        let middle = self.median.map(|it| ("median", it)).or(self.mean.map(|it| ("mean", it)));
        match (&self.times, middle) {
            (Some(times), _) if !times.is_empty() => {
                times.iter().for_each(|time| wall.push(block, time.0));
            }
            (_, Some((what, value))) => {
                wall.push(block, value.0);
                wall.notes.push(format!("the {what} of the file, which has no single times"));
            }
            _ => wall.missing = Some("the file has no `times`, `median` or `mean`".to_owned()),
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
