//! The paths of `--urls`.

use std::path::Path;

use fathom_fileio::read_text;
use fathom_http::{Url, UrlError};
use fathom_metric::ProcedureError;

use crate::paths::{PATHS_MAX, expand, shown};

/// Bytes of a file with paths, at most.
const URLS_MAX: u64 = 1 << 30;
/// The weight of a path, at most.
const WEIGHT_MAX: u32 = 1_000;
/// Bytes of a path, at most: servers accept less.
const PATH_BYTES_MAX: usize = 16 << 10;

/// Before the server is asked for anything.
pub fn check_pattern(urls: &str) -> Result<(), ProcedureError> {
    match urls.starts_with('/') && !Path::new(urls).is_file() {
        true => expand(urls).map(drop).map_err(ProcedureError::usage),
        false => Ok(()),
    }
}

/// Paths of a pattern, or the lines of a file if it may be read, with their weights if one has one.
pub(super) fn by_option(
    urls: &str,
    url: &Url,
    may_read: bool,
) -> Result<(Vec<String>, Vec<u32>), ProcedureError> {
    let failed =
        |what: &dyn std::fmt::Display| ProcedureError::failed(format!("--urls {urls}: {what}"));
    let is_file = may_read && Path::new(urls).is_file();
    if urls.starts_with('/') && !is_file {
        check_path(urls).map_err(|error| ProcedureError::usage(format!("--urls {error}")))?;
        return Ok((expand(urls).map_err(ProcedureError::usage)?, Vec::new()));
    }
    if !may_read {
        return Err(failed(&"expected a pattern of paths, such as /f{0..9999}"));
    }
    let text = read_text(Path::new(urls), URLS_MAX).map_err(|error| failed(&error))?;
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut paths, mut weights) = (Vec::new(), Vec::new());
    for line in lines {
        let (line, weight) = weighted(line).map_err(|error| failed(&error))?;
        weights.push(weight);
        check_length(line).map_err(|error| failed(&error))?;
        let path = match line.starts_with('/') {
            true => line.to_owned(),
            false => {
                let cut = |error: UrlError| error.to_string().replace(line, &shown(line));
                let other = Url::parse(line).map_err(|error| failed(&cut(error)))?;
                if !other.has_origin_of(url) {
                    return Err(failed(&format!("{} is on another server", shown(line))));
                }
                other.path
            }
        };
        check_path(&path).map_err(|error| failed(&error))?;
        paths.push(path);
    }
    match paths.len() {
        0 => Err(failed(&"no paths")),
        count if count > PATHS_MAX as usize => Err(failed(&format!("above {PATHS_MAX} paths"))),
        _ if weights.iter().all(|weight| *weight == 1) => Ok((paths, Vec::new())),
        _ => Ok((paths, weights)),
    }
}

/// A line of a list: `PATH`, or `PATH WEIGHT`. The sum of all weights fits.
fn weighted(line: &str) -> Result<(&str, u32), String> {
    let Some((path, weight)) = line.split_once([' ', '\t']) else { return Ok((line, 1)) };
    let known = weight.trim().parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
    let wrong = || {
        let line = shown(line);
        format!("`{line}`: expected an encoded path, maybe with a weight from 1 to {WEIGHT_MAX}")
    };
    Ok((path, known.ok_or_else(wrong)?))
}

fn check_path(path: &str) -> Result<(), String> {
    check_length(path)?;
    match path.chars().all(|c| c.is_ascii_graphic() && c != '#') {
        true => Ok(()),
        false => Err(format!("`{}`: expected an encoded path", shown(path))),
    }
}

fn check_length(path: &str) -> Result<(), String> {
    match path.len() {
        ..=PATH_BYTES_MAX => Ok(()),
        length => Err(format!(
            "`{}`: a path of {length} bytes, at most {PATH_BYTES_MAX} are allowed",
            shown(path)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_list_may_have_a_weight() {
        assert_eq!(weighted("/a?b=1"), Ok(("/a?b=1", 1)));
        assert_eq!(weighted("/a \t 70"), Ok(("/a", 70)));
        for wrong in ["/a 0", "/a 1001", "/a -1", "/a b", "/a 1 2", "/a 0.5"] {
            let error = weighted(wrong).unwrap_err();
            assert!(error.contains("from 1 to 1000"), "{error}");
        }
        let most = u64::from(WEIGHT_MAX) * u64::from(PATHS_MAX);
        assert!(u32::try_from(most).is_ok(), "the sum of all");
    }
}
