//! A file that holds a request: `fathom bench -f bench.toml`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use fathom_metric::ProcedureError;
use fathom_record::{Activity, system_cause};

use crate::check::refuse_pipe;
use crate::request::Request;

/// The largest file.
const BYTES_MAX: u64 = 1 << 20;

/// # Errors
/// If it cannot be read, or the line that is not understood.
pub(crate) fn read(path: &Path) -> Result<Request, ProcedureError> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        let cause = system_cause(&error, Activity::Read);
        ProcedureError::failed(format!("open {shown}: {cause}"))
    };
    let mut text = String::new();
    refuse_pipe(path)?;
    let file = File::open(path).map_err(failed)?;
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(ProcedureError::failed(format!("{shown}: larger than 1 MiB")));
    }
    parse(&text).map_err(|error| ProcedureError::usage(format!("{shown}: {error}")))
}

/// # Errors
/// The line that is not understood, and why.
pub(crate) fn parse(text: &str) -> Result<Request, String> {
    let request: Request = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |at| 1 + text[..at.start].matches('\n').count());
        format!("line {line}: {}", error.message().replace('\n', ", "))
    })?;
    match request.commands.is_empty() {
        true => Err("no [[command]] in it; each has run = \"CMD\"".to_owned()),
        false => Ok(request),
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::ParamValue;

    use super::*;
    use crate::request::{BenchInvocation, BenchOutput};

    const TEXT: &str = r#"
        [[command]]
        name = "a"
        run = "sort -n {file}"
        limit = "..20 ms"
        output = "1\n"

        [[command]]
        run = ["grep", "-q", "{file}"]
        exit = [0, 1]

        [parameters]
        file = ["x", 2]
        n = "1..4"

        [settings]
        warmup = 1
        output = "out"
        cold = ["data"]
        time = "5s"
        fail_on = "3%"
    "#;

    #[test]
    fn request_is_filled_by_a_file() {
        let request = parse(TEXT).expect("a request");
        let [a, grep] = &request.commands[..] else { panic!("two commands") };
        assert_eq!((&a.exit[..], a.limit.as_deref()), (&[0][..], Some("..20 ms")));
        assert_eq!((&grep.name, &grep.exit[..], &grep.output), (&None, &[0, 1][..], &None));
        let words = ["grep", "-q", "{file}"].map(str::to_owned).to_vec();
        assert_eq!(grep.command, BenchInvocation::Words(words));
        let values: Vec<String> = request.parameters.iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(values.len(), 2);
        assert_eq!(request.parameters[0].values, [ParamValue::from("x"), ParamValue::from(2)]);
        assert_eq!(request.parameters[1].values, [1, 2, 4].map(ParamValue::from));
        let settings = request.settings;
        assert_eq!(settings.output, BenchOutput::File("out".into()));
        assert_eq!((settings.time_s, settings.fail_on), (Some(5.0), Some(0.03)));
        assert_eq!((settings.warmup, settings.runs, settings.timeout_s), (1, None, 3600.0));
    }

    #[test]
    fn what_is_not_understood_is_named_with_its_line() {
        for (text, expected) in [
            ("", "no [[command]]"),
            ("[[command]]\nrun = 3", "line 2: "),
            ("[[command]]\nname = \"a\"", "missing field `run`"),
            ("[[command]]\nrun = \"a\"\nexit = []", "line 3: exit: expected a status"),
            ("[settings]\nwarmups = 1", "line 2: unknown field `warmups`"),
            ("[settings]\ntime = \"soon\"", "line 2: "),
            ("[settings]\nfail_on = \"-3%\"", "line 2: "),
            ("[parameters]\nn = \"4..1\"", "parameter n: `4..1`: "),
            ("[[command]", "line 1: "),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
