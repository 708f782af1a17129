"""Records of one object, one after another, are the bytes of the object."""

import pytest
from drumline.api.v1 import namespace_service_pb2, node_pb2, pod_pb2
from drumline.storage.v1 import records_pb2
from google.protobuf.descriptor import Descriptor

OBJECTS = {
    pod_pb2.Pod.DESCRIPTOR: ["PodRecord", "AssignmentRecord", "PodStatusRecord"],
    node_pb2.Node.DESCRIPTOR: [
        "NodeRecord",
        "NodeInfoRecord",
        "NodeStatusRecord",
        "NodeLoadRecord",
    ],
    namespace_service_pb2.Namespace.DESCRIPTOR: ["NamespaceRecord", "QuotaUseRecord"],
}
# What no object is joined from.
ALONE = {"EpochRecord", "LeaderRecord"}

RECORDS = records_pb2.DESCRIPTOR.message_types_by_name


def test_every_record_belongs_to_one_object() -> None:
    named = [name for names in OBJECTS.values() for name in names]
    assert sorted(named) == sorted(set(RECORDS) - ALONE)


@pytest.mark.parametrize("whole", OBJECTS, ids=lambda whole: whole.name)
def test_each_field_of_a_record_is_one_of_its_object(whole: Descriptor) -> None:
    wrong = [
        f"{name}.{field.name}"
        for name in OBJECTS[whole]
        for field in RECORDS[name].fields
        if (found := whole.fields_by_number.get(field.number)) is None
        or (found.name, found.message_type) != (field.name, field.message_type)
    ]
    assert not wrong


@pytest.mark.parametrize("whole", OBJECTS, ids=lambda whole: whole.name)
def test_no_field_of_an_object_has_two_writers(whole: Descriptor) -> None:
    numbers = [field.number for name in OBJECTS[whole] for field in RECORDS[name].fields]
    assert len(numbers) == len(set(numbers))
