# attack: reads from the descriptors that the judge writes to | class: hanging | canary: time
import os
import select

select.select([3], [], [], 15)
os.read(3, 4096)
select.select([3], [], [], 15)
