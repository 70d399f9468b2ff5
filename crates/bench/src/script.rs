//! Why a file that may be executed is no program: the words for what the kernel only numbers.

use std::fs::File;
use std::io::{Error, Read as _};
use std::path::Path;

/// The kernel reads as much of a `#!` line.
const LINE_MAX: u64 = 256;

/// What is wrong with the `#!` line of a file, if it has one.
pub(crate) fn bad_interpreter(path: &Path) -> Option<String> {
    let head = head(path);
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    if line.ends_with('\r') {
        let file = fathom_record::shell_word(&path.display().to_string());
        return Some(format!("its lines end with CR LF, as of Windows: sed -i 's/\\r$//' {file}"));
    }
    let interpreter = line.split_whitespace().next()?;
    let is_missing = !Path::new(interpreter).exists();
    is_missing.then(|| format!("its #! line names {interpreter}, which does not exist"))
}

/// Why the kernel refused to execute a file, if that can be said in better words than its own.
pub(crate) fn refused(path: &Path, error: &Error) -> Option<String> {
    match error.raw_os_error()? {
        libc::ENOEXEC if head(path).contains(&0) => {
            Some("not made for this kind of machine, or damaged".to_owned())
        }
        libc::ENOEXEC => Some(format!(
            "a script without a #! line; write #!/bin/sh as its first line, or `sh {}`",
            path.display()
        )),
        libc::ENOENT if path.is_file() => {
            let loader = "its dynamic loader does not exist: it is made for another system";
            bad_interpreter(path).or(Some(loader.to_owned()))
        }
        _ => None,
    }
}

fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // One that may only be executed has none.
    if let Ok(file) = File::open(path) {
        let _ = file.take(LINE_MAX).read_to_end(&mut head);
    }
    head
}
