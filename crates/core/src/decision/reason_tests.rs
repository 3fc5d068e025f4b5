//! The words of reasons.

use std::collections::BTreeSet;

use super::Reason;

#[test]
fn all_are_listed_once_and_have_words_of_their_own() {
    let all: BTreeSet<_> = Reason::ALL.iter().copied().collect();
    // The list is as long as the last discriminant says.
    assert_eq!(all.len(), Reason::BadRequest as usize + 1);
    let words: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(words.len(), all.len());
    let is_word = |word: &&&str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    assert_eq!(words.iter().filter(is_word).count(), words.len());
    // Those that the cases name.
    let named = [
        "pod_opt_out",
        "no_injector_for_revision",
        "host_network",
        "os_windows",
        "mirror_pod",
        "sidecar_not_restartable",
    ];
    assert!(named.iter().all(|word| words.contains(word)));
}
