//! `Version`: what the tag of an image says of its version.

use std::fmt;

/// Major and minor number: releases of an injector and its sidecars have them in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// The first `NUMBER.NUMBER` in the tag of an image, `None` if it has none or only a digest:
    /// `proxy:edge-24.5.1` is 24.5.
    pub fn of_image(image: &str) -> Option<Self> {
        let name = image.split('@').next()?.rsplit('/').next()?;
        let (_, tag) = name.split_once(':')?;
        let mut pieces = tag.split(|c: char| !c.is_ascii_digit() && c != '.');
        pieces.find_map(|piece| {
            let mut numbers = piece.split('.').map(str::parse);
            let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
                return None;
            };
            Some(Self { major, minor })
        })
    }

    /// How many minor versions it is behind another one. Behind another major version it is behind all.
    pub(crate) fn behind(self, newer: Self) -> u32 {
        if self.major < newer.major {
            u32::MAX
        } else if self.major == newer.major {
            newer.minor.saturating_sub(self.minor)
        } else {
            0
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;
