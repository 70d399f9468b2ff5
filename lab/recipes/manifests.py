"""Each document of each file, by the schema of Kubernetes; one with a wrong field must be refused."""

import pathlib
import sys

import kubernetes_validate
import yaml


def is_refused(document):
    try:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        return error.message
    return None


for path in sys.argv[1:]:
    documents = list(yaml.safe_load_all(pathlib.Path(path).read_text()))
    for document in documents:
        if why := is_refused(document):
            sys.exit(f"{path}: {document['kind']}: {why}")
        assert is_refused(document | {"spec": document["spec"] | {"schedul": ""}}), "a wrong field passes"
    kinds = ", ".join(document["kind"] for document in documents)
    print(f"{pathlib.Path(path).name}: {kinds}: valid for Kubernetes {kubernetes_validate.latest_version()}")
