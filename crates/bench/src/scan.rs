//! Parameters of commands: their values, and what replaces `{name}`.

use fathom_metric::notation::{NotationError, sizes};
use fathom_record::{ParamValue, Params, escaped, is_hidden};

/// A parameter and the values that replace `{name}` in commands and hooks.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanParameter {
    pub name: String,
    pub values: Vec<ParamValue>,
}

const VALUES_MAX: usize = 100;
/// Parameters of the records of ratios.
const RESERVED: [&str; 2] = ["of", "to"];

/// `threads` and `1..8`: sizes, doubled within a range, and numbers as they are: `0.5,-1,1e3`.
pub(crate) fn numbers(name: &str, values: &str) -> Result<ScanParameter, NotationError> {
    let integer = |value: u64| ParamValue::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    let part = |part: &str| match (sizes(part), part.parse::<f64>()) {
        (Ok(all), _) => Ok(all.into_iter().map(integer).collect()),
        (_, Ok(number)) if number.is_finite() => Ok(list(name, part).values),
        _ => Err(NotationError::new(
            part,
            "a number such as 8, 0.5 or 64K, or a range of whole numbers above 0 such as 1..8",
        )),
    };
    let parts: Result<Vec<Vec<ParamValue>>, _> =
        values.split(',').map(|text| part(text.trim())).collect();
    Ok(ScanParameter { name: name.to_owned(), values: parts?.concat() })
}

/// `compiler` and `gcc,clang`. Whole numbers are numbers.
pub(crate) fn list(name: &str, values: &str) -> ScanParameter {
    let value = |text: &str| match text.parse::<i64>() {
        Ok(number) if number.to_string() == text => ParamValue::Integer(number),
        _ => ParamValue::Text(text.to_owned()),
    };
    ScanParameter { name: name.to_owned(), values: values.split(',').map(value).collect() }
}

/// # Errors
/// What is wrong with its name or values.
pub(crate) fn check(parameter: &ScanParameter) -> Result<(), String> {
    let ScanParameter { name, values } = parameter;
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_part) {
        return Err(format!("parameter `{name}`: expected letters, digits and _, such as threads"));
    }
    if RESERVED.contains(&name.as_str()) {
        return Err(format!(
            "parameter `{name}`: is of the ratios of commands; choose another name"
        ));
    }
    if values.is_empty() || values.len() > VALUES_MAX {
        let count = values.len();
        return Err(format!("parameter {name}: {count} values, expected 1 to {VALUES_MAX}"));
    }
    let is_bad = |value: &&ParamValue| match value {
        ParamValue::Integer(_) => false,
        ParamValue::Text(text) => {
            text.is_empty() || text.contains(|it| ",{}".contains(it) || is_hidden(it))
        }
    };
    if let Some(bad) = values.iter().find(is_bad) {
        let why = "is empty or has a comma, a brace or a control character";
        return Err(format!("parameter {name}: value `{}` {why}", escaped(&bad.to_string())));
    }
    let twice = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value));
    twice.map_or(Ok(()), |(_, value)| Err(format!("parameter {name}: `{value}` is given twice")))
}

pub(crate) fn has(text: &str, name: &str) -> bool {
    text.contains(&format!("{{{name}}}"))
}

/// The names in braces of a text: those of parameters, and `{print}` of a program of awk.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0));
    parts.filter(|name| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_part)
    })
}

/// The text with the values of its parameters. Other braces stay.
pub(crate) fn substituted(text: &str, params: &Params) -> String {
    // Values have no braces: none is replaced within another.
    let replace = |text: String, (name, value): (&String, &ParamValue)| {
        text.replace(&format!("{{{name}}}"), &value.to_string())
    };
    params.0.iter().fold(text.to_owned(), replace)
}

/// How many combinations there are.
pub(crate) fn count(parameters: &[ScanParameter]) -> usize {
    parameters.iter().map(|it| it.values.len()).fold(1, usize::saturating_mul)
}

/// Every value of a parameter with every value of the others, the last one changing fastest.
pub(crate) fn combinations(parameters: &[ScanParameter]) -> Vec<Params> {
    parameters.iter().fold(vec![Params::none()], |all, parameter| {
        let with = |params: &Params| {
            let params = params.clone();
            parameter
                .values
                .iter()
                .map(move |value| params.clone().and(&parameter.name, value.clone()))
        };
        all.iter().flat_map(with).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_replace_braces_of_their_name_only() {
        let params = Params::one("n", 4).and("to_file", "a b");
        let text = substituted("x -{n} {n}{to_file} {m} '{print}'", &params);
        assert_eq!(text, "x -4 4a b {m} '{print}'");
        let found: Vec<&str> = names("x {n} {a b} {} ${m} {2} '{print}' {").collect();
        assert_eq!(found, ["n", "m", "print"]);
    }

    #[test]
    fn combinations_are_all_pairs() {
        let parameters = [numbers("threads", "1..4").unwrap(), list("compiler", "gcc,clang")];
        let all = combinations(&parameters);
        let text: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(text.len(), 6);
        assert_eq!(text[0], "{compiler=gcc,threads=1}");
        assert_eq!(text[5], "{compiler=clang,threads=4}");
        assert_eq!(combinations(&[]), [Params::none()]);
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (name, values) in [
            ("", "1"),
            ("a b", "1"),
            ("of", "1"),
            ("x", "1,1"),
            ("x", "a,,b"),
            ("x", "{y}"),
            ("x", "a\n| b=1"),
        ] {
            assert!(check(&list(name, values)).is_err(), "{name} {values}");
        }
        assert_eq!(check(&list("x", "01,1,-2,a")), Ok(()));
        assert!(numbers("x", "0.5..4").is_err() && numbers("x", "nan").is_err());
        let decimals = numbers("x", "0.001, 2,-1,1..2,4K").expect("numbers").values;
        assert_eq!(decimals[0], ParamValue::from("0.001"));
        assert_eq!(decimals[1..], [2, -1, 1, 2, 4096].map(ParamValue::from));
        assert_eq!(list("x", "01,-2").values, [ParamValue::from("01"), ParamValue::from(-2)]);
    }
}
