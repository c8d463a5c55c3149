"""What a gRPC target needs before it is stored: descriptors of its method, and a message that fits."""

import base64

from msgspec.structs import replace

from tocsin.api.endpoint import ApiCall
from tocsin.domain.errors import Refused
from tocsin.domain.grpc_target import MAX_DESCRIPTORS, GrpcTarget
from tocsin.domain.job import Definition
from tocsin.domain.target import Target
from tocsin.targets.grpc.extras import MISSING


async def with_descriptors(definition: Definition, call: ApiCall) -> Definition:
    """The definition, with the descriptors that its target needs. Asks the server if they were not given."""
    if not isinstance(definition.target, GrpcTarget):
        return definition
    return replace(definition, target=await described(definition.target, call))


async def described(target: Target, call: ApiCall) -> Target:
    """The target as it is called."""
    if not isinstance(target, GrpcTarget):
        return target
    if call.context.grpc is None:
        raise Refused(MISSING, field="target.kind")
    found = await call.context.grpc.describe(call.asker.tenant_id, target)
    if len(found) > MAX_DESCRIPTORS:
        raise Refused("the descriptors of this method are too large", field="target.descriptors")
    return replace(target, descriptors=base64.b64encode(found).decode())
