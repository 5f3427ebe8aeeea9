# attack: writes one large file | class: exhausting | canary: claim
with open("large", "wb") as file:
    for _ in range(100):
        file.write(bytes(2**20))
        file.flush()
print(target.trophy)
