//! Lists in which each thing stands once, and lists in words.

use std::fmt::Display;

/// These things in their order, each where it comes first.
pub fn distinct<T: PartialEq>(things: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for thing in things {
        if !all.contains(&thing) {
            all.push(thing);
        }
    }
    all
}

/// `a, b, c`.
pub fn listed<T: Display>(things: impl IntoIterator<Item = T>) -> String {
    let words = things.into_iter().map(|thing| thing.to_string());
    words.collect::<Vec<_>>().join(", ")
}
