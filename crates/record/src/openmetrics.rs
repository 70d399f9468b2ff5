//! OpenMetrics, the text that monitoring collects: each family once, `# EOF` at the end.

use std::fmt::{Display, Write as _};

pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The last line.
pub const END: &str = "# EOF\n";

/// Begins a family: its name ends with its unit, and samples of a counter in `_total`.
pub fn family(text: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    // Prometheus' older format, that of text collectors, refuses an escaped quote here, and
    // OpenMetrics a bare one.
    let _ = writeln!(text, "# HELP {name} {}", escaped(&help.replace('"', "'")));
}

/// A sample with the text of [`labels`], which may be empty.
pub fn sample(text: &mut String, name: &str, labels: &str, value: impl Display) {
    let _ = match labels {
        "" => writeln!(text, "{name} {value}"),
        labels => writeln!(text, "{name}{{{labels}}} {value}"),
    };
}

pub fn labels<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let label = |(name, value): (&str, String)| format!("{name}=\"{}\"", escaped(&value));
    let labels: Vec<String> = pairs.into_iter().map(label).collect();
    labels.join(",")
}

pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_is_followed_by_its_samples() {
        let mut text = String::new();
        family(&mut text, "sent_bytes", "counter", "bytes", "Bytes \"sent\".");
        sample(&mut text, "sent_bytes_total", "", 5);
        sample(&mut text, "sent_bytes_total", &labels([("to", "a\"b\\c\nd".to_owned())]), 1.5);
        let expected = "\
            # TYPE sent_bytes counter\n# UNIT sent_bytes bytes\n\
            # HELP sent_bytes Bytes 'sent'.\nsent_bytes_total 5\n\
            sent_bytes_total{to=\"a\\\"b\\\\c\\nd\"} 1.5\n";
        assert_eq!(text, expected);
    }
}
