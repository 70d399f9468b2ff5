//! Files of other tools: all of them are one run.

use std::io::Read;

use anyhow::{Context, anyhow, bail};
use fathom_import::{DocumentAbout, DocumentSource, Format, Parsed, decoded, document};
use fathom_store::Store;

use super::input::ImportInput;
use crate::arguments::ImportArguments;
use crate::commands::{counted, print_done, setup, stored_run};
use crate::exit::{Status, UsageError, usage_error};

/// As of a document of Fathom.
const BYTES_MAX: u64 = 64 << 20;

/// The tool that wrote the files; `None` for runs of Fathom.
pub(super) fn format(
    inputs: &[ImportInput],
    arguments: &ImportArguments,
) -> Result<Option<Format>, UsageError> {
    if let Some(format) = arguments.format {
        return Ok(Some(format.into()));
    }
    let mut found = inputs.iter().map(|input| (&input.name, input.format()));
    let Some((first, format)) = found.next() else { return Ok(None) };
    if let Some((other, of_other)) = found.find(|(_, other)| *other != format) {
        let name = |format: Option<Format>| format.map_or("no other tool", Format::name);
        let (of_first, of_other) = (name(format), name(of_other));
        return Err(UsageError(format!(
            "import: {first} is of {of_first} and {other} of {of_other}; import them apart, or \
             name the --format of all"
        )));
    }
    if format.is_none() && (arguments.label.is_some() || arguments.host.is_some()) {
        usage_error!(
            "import: --label and --host are of files of another tool; name their --format"
        );
    }
    Ok(format)
}

pub(super) fn import(
    format: Format,
    inputs: Vec<ImportInput>,
    arguments: &ImportArguments,
) -> anyhow::Result<Status> {
    let written = inputs.iter().map(ImportInput::written).max().unwrap_or_default();
    let mut sources = Vec::new();
    for mut input in inputs {
        let parsed = parsed(format, &mut input)?;
        sources.push(DocumentSource { name: input.name, parsed });
    }
    let (label, host) = (arguments.label.clone(), arguments.host.clone());
    let document =
        document(&sources, &DocumentAbout { format, tool: setup::tool(), label, host, written })
            .map_err(|conflict| anyhow!("import: {conflict}"))?;
    let place = stored_run::store_place(&arguments.store)?;
    let is_new = stored_run::announced(Store::open(&place)?).import(&document)?;
    let (run, tool) = (&document.run.id, format.name());
    let cases = counted(document.records.len(), "case");
    let files = counted(sources.len(), "file");
    let done = match is_new {
        true => format!("Imported {cases} from {files} of {tool} as run {run}"),
        false => format!("Skipped {files} of {tool}: the store already has run {run}"),
    };
    print_done(&format!("{done}. `fathom show {run}` shows it.\n"))
}

fn parsed(format: Format, input: &mut ImportInput) -> anyhow::Result<Parsed> {
    let (mut text, tool) = (String::new(), format.name());
    if format == Format::Criterion {
        for path in input.neighbours() {
            text += &self::text(tool, &mut ImportInput::open(&path)?)?;
            text.push('\n');
        }
    }
    text += &self::text(tool, input)?;
    let name = &input.name;
    format.parse(&text).map_err(|error| anyhow!("{name} is no result of {tool}: {error}"))
}

fn text(tool: &str, input: &mut ImportInput) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = input.reader()?.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    let name = &input.name;
    read.with_context(|| format!("read {name}"))?;
    let (bytes, whole) = decoded(bytes, BYTES_MAX + 1);
    whole.with_context(|| format!("decompress {name}"))?;
    if bytes.len() as u64 > BYTES_MAX {
        bail!("{name} exceeds {} MiB, the limit of a file of {tool}", BYTES_MAX >> 20);
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        anyhow!("{name} is no result of {tool}: line {line}: not UTF-8")
    })
}
