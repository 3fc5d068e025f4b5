use std::error::Error;

use kube::core::Status;

use super::CallError;

#[test]
fn an_error_says_each_cause_once() {
    let status = Status::failure("alice may not", "Forbidden").with_code(403);
    let error = CallError::Call {
        what: "cannot delete it".to_owned(),
        answer: Box::new(kube::Error::Api(Box::new(status))),
    };
    assert_eq!(error.to_string(), "cannot delete it: alice may not");
    assert!(error.source().is_none());
    assert!(error.is_forbidden() && !error.is_gone() && !error.is_conflict());
}
