"""Two kernels in one process share nothing."""

import aiohttp


async def test_two_kernels_in_one_process_share_nothing(start_service):
    one = await start_service("ca", "acme", "resolver", "http-01")
    two = await start_service("ca", "acme", "resolver", "http-01")

    async with aiohttp.ClientSession() as client:
        roots = [await (await client.get(f"{service.url}/ca/root.pem")).read() for service in (one, two)]
        directories = [await (await client.get(f"{service.url}/acme/directory")).json() for service in (one, two)]

    assert roots[0] != roots[1]
    assert directories[0]["newNonce"].startswith(one.url)
    assert directories[1]["newNonce"].startswith(two.url)
    mine, other = ({id(instance) for instance in service.kernel.hooks.instances.values()} for service in (one, two))
    assert not mine & other
    assert one.kernel.keys is not two.kernel.keys
